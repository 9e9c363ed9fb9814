package guard

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Settings are what one call may do at most: plain data, comparable, and the same on the wire. An empty list
// of paths means unrestricted. A nil AllowedCommands means that DeniedCommands decides, and an empty one that
// nothing may run.
type Settings struct {
	AllowedReadPaths  []string `json:"allowedReadPaths" yaml:"allowedReadPaths"`
	AllowedWritePaths []string `json:"allowedWritePaths" yaml:"allowedWritePaths"`
	DeniedPaths       []string `json:"deniedPaths" yaml:"deniedPaths"`
	DeniedCommands    []string `json:"deniedCommands" yaml:"deniedCommands"`
	AllowedCommands   []string `json:"allowedCommands" yaml:"allowedCommands"`

	AllowNestedSandbox        bool `json:"allowNestedSandbox" yaml:"allowNestedSandbox"`
	EnableWeakerNestedSandbox bool `json:"enableWeakerNestedSandbox" yaml:"enableWeakerNestedSandbox"`
	AutoAllowBashIfSandboxed  bool `json:"autoAllowBashIfSandboxed" yaml:"autoAllowBashIfSandboxed"`
	AllowUnsandboxedCommands  bool `json:"allowUnsandboxedCommands" yaml:"allowUnsandboxedCommands"`

	Network Network `json:"network" yaml:"network"`
	Limits  Limits  `json:"limits" yaml:"limits"`

	// Env adds variables to the environment of programs. Their values are literal. Of all other variables they get
	// only listed ones.
	Env map[string]string `json:"env,omitempty" yaml:"env,omitempty"`
	// Require names [Layers] that must hold. Otherwise nothing runs.
	Require []string `json:"require,omitempty" yaml:"require,omitempty"`
}

// Layers are the names that Require can have.
var Layers = []string{"userns", "netns", "landlock", "seccomp", "cgroup2"}

// Limits bound one call. Zero means the default of [DefaultLimits].
type Limits struct {
	WallSeconds   int   `json:"wallSeconds,omitempty" yaml:"wallSeconds,omitempty"`
	CPUSeconds    int   `json:"cpuSeconds,omitempty" yaml:"cpuSeconds,omitempty"`
	MemoryBytes   int64 `json:"memoryBytes,omitempty" yaml:"memoryBytes,omitempty"`
	Processes     int   `json:"processes,omitempty" yaml:"processes,omitempty"`
	FileSizeBytes int64 `json:"fileSizeBytes,omitempty" yaml:"fileSizeBytes,omitempty"`
	OpenFiles     int   `json:"openFiles,omitempty" yaml:"openFiles,omitempty"`
	OutputBytes   int64 `json:"outputBytes,omitempty" yaml:"outputBytes,omitempty"`
	DiskBytes     int64 `json:"diskBytes,omitempty" yaml:"diskBytes,omitempty"`
	// NetworkBytes counts what goes out and what comes in, together. NetworkConnections counts those that are open
	// at once.
	NetworkBytes       int64 `json:"networkBytes,omitempty" yaml:"networkBytes,omitempty"`
	NetworkConnections int   `json:"networkConnections,omitempty" yaml:"networkConnections,omitempty"`
	// OutputAction is what happens at OutputBytes: [OutputTruncate] or [OutputKill]; "" is the first.
	OutputAction string `json:"outputAction,omitempty" yaml:"outputAction,omitempty"`
}

// What happens to a program that writes more than OutputBytes.
const (
	OutputTruncate = "truncate" // it goes on, and its output is kept in part
	OutputKill     = "kill"     // it is ended
)

// outputActions are the values of Limits.OutputAction, the default first.
var outputActions = []string{OutputTruncate, OutputKill}

// Obligations are conditions that a policy attaches to its decision. They only
// tighten.
type Obligations struct {
	NoNetwork   bool `json:"no_network,omitempty"`
	ReadOnly    bool `json:"read_only,omitempty"`
	WallSeconds int  `json:"wall_seconds,omitempty"`
}

// DefaultLimits bound a call that asks for nothing else.
var DefaultLimits = Limits{
	WallSeconds:   120,
	CPUSeconds:    300,
	MemoryBytes:   4 << 30,
	Processes:     1024,
	FileSizeBytes: 2 << 30,
	OpenFiles:     4096,
	OutputBytes:   1 << 20,
	DiskBytes:     2 << 30,
	OutputAction:  OutputTruncate,

	NetworkBytes:       1 << 30,
	NetworkConnections: 256,
}

// WithDefaults replaces each zero by its default.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits
	return Limits{
		WallSeconds:   cmp.Or(l.WallSeconds, d.WallSeconds),
		CPUSeconds:    cmp.Or(l.CPUSeconds, d.CPUSeconds),
		MemoryBytes:   cmp.Or(l.MemoryBytes, d.MemoryBytes),
		Processes:     cmp.Or(l.Processes, d.Processes),
		FileSizeBytes: cmp.Or(l.FileSizeBytes, d.FileSizeBytes),
		OpenFiles:     cmp.Or(l.OpenFiles, d.OpenFiles),
		OutputBytes:   cmp.Or(l.OutputBytes, d.OutputBytes),
		DiskBytes:     cmp.Or(l.DiskBytes, d.DiskBytes),
		OutputAction:  cmp.Or(l.OutputAction, d.OutputAction),

		NetworkBytes:       cmp.Or(l.NetworkBytes, d.NetworkBytes),
		NetworkConnections: cmp.Or(l.NetworkConnections, d.NetworkConnections),
	}
}

// Tighten lowers l where other is lower. To end a program is stricter than to cut its output.
func (l Limits) Tighten(other Limits) Limits {
	action := l.OutputAction
	if other.OutputAction == OutputKill {
		action = OutputKill
	}
	return Limits{
		WallSeconds: lower(l.WallSeconds, other.WallSeconds), CPUSeconds: lower(l.CPUSeconds, other.CPUSeconds),
		MemoryBytes: lower(l.MemoryBytes, other.MemoryBytes), Processes: lower(l.Processes, other.Processes),
		FileSizeBytes: lower(l.FileSizeBytes, other.FileSizeBytes), OpenFiles: lower(l.OpenFiles, other.OpenFiles),
		OutputBytes: lower(l.OutputBytes, other.OutputBytes), DiskBytes: lower(l.DiskBytes, other.DiskBytes),
		NetworkBytes:       lower(l.NetworkBytes, other.NetworkBytes),
		NetworkConnections: lower(l.NetworkConnections, other.NetworkConnections),
		OutputAction:       action,
	}
}

func lower[T int | int64](v, other T) T {
	if other > 0 && other < v {
		return other
	}
	return v
}

// NoPath is a path that never exists. A list with only this path allows nothing, where an
// empty list would allow everything.
const NoPath = "/proc/sandboxd-nothing"

// Tighten applies what a policy demands. The result never allows what s refuses.
func (s Settings) Tighten(o Obligations) Settings {
	if o.NoNetwork {
		s.Network = Network{AllowedDomains: []string{}, Unlisted: UnlistedDeny}
	}
	if o.ReadOnly {
		s.AllowedWritePaths = []string{NoPath}
	}
	if o.WallSeconds > 0 && (s.Limits.WallSeconds == 0 || o.WallSeconds < s.Limits.WallSeconds) {
		s.Limits.WallSeconds = o.WallSeconds
	}
	return s
}

// Unconfine returns the settings that a person may allow for a call that asks to leave the sandbox: every file
// except the denied ones. The secrets, the network, the commands and the limits stay as they are, and so does the
// cage.
func (s Settings) Unconfine() Settings {
	s.AllowedReadPaths, s.AllowedWritePaths = nil, nil
	return s
}

// HasCommandRules reports whether the settings have a list of commands.
func (s Settings) HasCommandRules() bool {
	return s.AllowedCommands != nil || len(s.DeniedCommands) > 0
}

// HasPathRules reports whether the settings restrict any path.
func (s Settings) HasPathRules() bool {
	return len(s.AllowedReadPaths)+len(s.AllowedWritePaths)+len(s.DeniedPaths) > 0
}

// Normalise resolves the configured paths, once, at load: absolute and physical,
// so that a linked directory in a list means what it points at. A relative
// path is an error. The warnings name rules that can never matter.
func (s Settings) Normalise() (Settings, []string, error) { return s.normalise(pathSet{}) }

// normalise is Normalise without a look into closed places.
func (s Settings) normalise(closed pathSet) (Settings, []string, error) {
	given := s
	for _, list := range []struct {
		name  string
		paths *[]string
	}{
		{"allowedReadPaths", &s.AllowedReadPaths},
		{"allowedWritePaths", &s.AllowedWritePaths},
		{"deniedPaths", &s.DeniedPaths},
	} {
		resolved, err := normalisePaths(list.name, *list.paths, closed)
		if err != nil {
			return Settings{}, nil, err
		}
		*list.paths = resolved
	}
	trees := ownTrees(append(slices.Clone(given.AllowedWritePaths), s.AllowedWritePaths...))
	var planted, more []string
	s.AllowedWritePaths, planted = unplanted("allowedWritePaths", s.AllowedWritePaths, given.AllowedWritePaths, trees,
		closed)
	s.AllowedReadPaths, more = unplanted("allowedReadPaths", s.AllowedReadPaths, given.AllowedReadPaths, trees, closed)
	planted = append(planted, more...)
	for _, list := range []struct {
		name  string
		names []string
	}{{"allowedCommands", s.AllowedCommands}, {"deniedCommands", s.DeniedCommands}} {
		for _, n := range list.names {
			if n == "" || strings.ContainsAny(n, " \t\n") {
				return Settings{}, nil, fmt.Errorf("%s: %q is not the name of a program", list.name, n)
			}
		}
	}
	if err := s.Limits.validate(); err != nil {
		return Settings{}, nil, err
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return Settings{}, nil, fmt.Errorf("env: %q cannot be the name of a variable, or it has a zero byte", name)
		}
	}
	for _, layer := range s.Require {
		if !slices.Contains(Layers, layer) {
			return Settings{}, nil, fmt.Errorf("require: %q is no layer: want %s", layer, strings.Join(Layers, ", "))
		}
	}
	if err := s.Network.validate(); err != nil {
		return Settings{}, nil, err
	}
	return s, append(s.warnings(), planted...), nil
}

// CheckCage refuses settings that promise what no cage can keep. Everybody who runs programs under settings calls
// it. Judging a text alone takes settings as they are.
func (s Settings) CheckCage() error {
	return s.Network.checkCage()
}

func normalisePaths(name string, paths []string, closed pathSet) ([]string, error) {
	if paths == nil {
		return nil, nil
	}
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("%s: %q is relative; write the absolute path", name, p)
		}
		if p == NoPath {
			out = append(out, p)
			continue
		}
		r, err := resolve(p, "", newNames(closed))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (l Limits) validate() error {
	for _, v := range []struct {
		name string
		n    int64
	}{
		{"wallSeconds", int64(l.WallSeconds)},
		{"cpuSeconds", int64(l.CPUSeconds)},
		{"memoryBytes", l.MemoryBytes},
		{"processes", int64(l.Processes)},
		{"fileSizeBytes", l.FileSizeBytes},
		{"openFiles", int64(l.OpenFiles)},
		{"outputBytes", l.OutputBytes},
		{"diskBytes", l.DiskBytes},
		{"networkBytes", l.NetworkBytes},
		{"networkConnections", int64(l.NetworkConnections)},
	} {
		if v.n < 0 {
			return fmt.Errorf("limits.%s: %d is negative", v.name, v.n)
		}
	}
	if l.OutputAction != "" && !slices.Contains(outputActions, l.OutputAction) {
		return fmt.Errorf("limits.outputAction: %q is not %s", l.OutputAction, strings.Join(outputActions, " or "))
	}
	return nil
}

func (s Settings) warnings() []string {
	var out []string
	if s.AllowedCommands != nil && len(s.DeniedCommands) > 0 {
		out = append(out, "allowedCommands is set, so deniedCommands is ignored") // CX-34
	}
	if s.AllowNestedSandbox {
		out = append(out, "allowNestedSandbox lets programs start that make a sandbox of their own, "+
			"but the cage refuses them namespaces, so most of them fail")
	}
	if s.EnableWeakerNestedSandbox {
		out = append(out,
			"enableWeakerNestedSandbox changes nothing: a host that cannot hold the sandbox runs no programs, "+
				"and a weaker isolation level is chosen and named by itself")
	}
	for name, list := range map[string][]string{
		"allowedReadPaths":  s.AllowedReadPaths,
		"allowedWritePaths": s.AllowedWritePaths,
	} {
		for _, p := range list {
			for _, d := range s.DeniedPaths {
				if Within(p, d) {
					out = append(out,
						fmt.Sprintf("%s: %s lies below the denied path %s and can never match", name, p, d))
				}
			}
		}
	}
	out = append(out, s.Network.warnings()...)
	slices.Sort(out)
	return out
}
