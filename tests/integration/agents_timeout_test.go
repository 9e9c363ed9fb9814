package integration

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestN05_AProgramThatHangsEnds: after agents.spawner.timeout, with all that it started, and whatever it does
// or answers when it is told to end.
func TestN05_AProgramThatHangsEnds(t *testing.T) {
	t.Parallel()
	mark := newNap()
	d := newAgents(t, "", "")
	gone := func(what string) {
		t.Helper()
		if !waitFor(func() bool { return len(withWord(mark)) == 0 }) {
			t.Errorf("%s runs on", what)
		}
	}
	// itself starts the program again, ten times, each in a session of its own.
	const itself = `n=${AGAIN:-0}
if [ $n = 10 ]; then : > "$here/last"; else AGAIN=$((n+1)) setsid "$0" <<<"$order" >/dev/null 2>&1 & fi
`
	root := d.session()
	d.write("spawn/do", itself+`[ "$n" = 0 ] || sleep `+mark+`; until [ -e "$here/last" ]; do sleep 0.1; done; echo '{"text":"done"}'`)
	if r := d.call(root, "Agent", ask+`}`); !strings.Contains(r.FinalText, "done") {
		t.Errorf("one that starts itself again and answers: %+v", r)
	}
	gone("what a program started that has answered")
	config := strings.Replace(d.read("config.yaml"), "timeout: 60s", "timeout: 2s", 1)
	d.stop(os.Interrupt)
	d.write("config.yaml", config)
	d.start()
	for _, do := range []string{
		`sleep ` + mark,
		`trap '' TERM; sleep ` + mark + ` & sleep ` + mark,
		`trap 'echo "{\"text\":\"late\"}"; exit 0' TERM; sleep ` + mark + ` & wait`,
		itself + `sleep ` + mark,
	} {
		d.write("spawn/do", do)
		t.Log(do)
		d.refuses(root, "Agent", ask+`}`, "spawner_failed", "within 2s (agents.spawner.timeout)")
		gone("the program")
	}
	d.write("spawn/do", `sleep `+mark)
	job := dataOf(t, d.call(root, "Agent", ask+`,"run_in_background":true}`)).Job
	if r := d.call(root, "TaskOutput", `{"task_id":"`+job+`","block":true}`); !strings.Contains(r.FinalText, "within 2s") {
		t.Errorf("the job says %+v", r)
	}
	gone("the program of a job")
	type agent struct {
		Session string `json:"session_id"`
		State   string
	}
	var all []agent
	if !waitFor(func() bool {
		d.does(d.agent, http.MethodGet, "/agents", nil, &all)
		return !slices.ContainsFunc(all, func(a agent) bool { return a.State != "idle" })
	}) || len(all) != 7 {
		t.Errorf("the agents are %+v", all)
	}
}
