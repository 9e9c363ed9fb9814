package pipeline

import "github.com/sandboxd/sandboxd/internal/tool"

// confinementAnswers reports whether the question of a mode about this call needs no person
// where programs are isolated (CX-38). It is what the settings allow with
// autoAllowBashIfSandboxed, for commands, in every mode but plan.
func confinementAnswers(c *tool.Call) bool {
	return c.Spec.Class == tool.ClassExec && c.Settings.AutoAllowBashIfSandboxed && c.Session.Mode != tool.ModePlan
}
