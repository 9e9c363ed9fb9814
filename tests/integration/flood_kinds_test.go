package integration

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// at sends requests of alice at once, each on a connection of its own, and returns how many
// were answered with each status. What is refused for want of room says when to come again.
func (d *flooded) at(once int, requests func(i int) (method, path string, body io.Reader)) map[int]int {
	d.t.Helper()
	statuses := map[int]int{}
	for _, a := range d.answers(once, requests) {
		statuses[a.Status]++
	}
	return statuses
}

func (d *flooded) answers(once int, requests func(i int) (method, path string, body io.Reader)) []answered {
	d.t.Helper()
	var mu sync.Mutex
	var all []answered
	var g sync.WaitGroup
	dial := func(context.Context, string, string) (net.Conn, error) {
		return dialAs(alice, filepath.Join(d.work, "run/a.sock"))
	}
	for i := range once {
		method, path, body := requests(i)
		g.Go(func() {
			hc := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
			a, err := d.send(&hc, method, path, body)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				d.t.Errorf("%s %s: %v", method, path, err)
			}
			all = append(all, a)
		})
	}
	g.Wait()
	return all
}

// send returns an answer; its status is 0 for a connection that there was no room for.
func (d *flooded) send(hc *http.Client, method, path string, body io.Reader) (a answered, err error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Minute) // which only means that it hangs
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://sandboxd"+path, body)
	if err != nil {
		return a, err
	}
	res, err := hc.Do(req)
	if err != nil {
		return a, ctx.Err() // one that was closed to make room is no error; one that hangs is
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if a.Status = res.StatusCode; err != nil {
		return a, fmt.Errorf("status %d, %w: %.300s", a.Status, err, text)
	}
	switch a.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if res.Header.Get("Retry-After") == "" {
			return a, fmt.Errorf("no Retry-After: %s", text)
		}
		fallthrough
	case http.StatusRequestEntityTooLarge:
		if a.Error.Hint == "" {
			return a, fmt.Errorf("no hint: %s", text)
		}
	case http.StatusInternalServerError:
		return a, fmt.Errorf("%s", text)
	}
	return a, nil
}

func moreFloods() []flood {
	return []flood{
		{name: "chunked bodies of unknown length", run: chunkedBodies, long: tried},
		{name: "many small requests", run: smallRequests, fits: true, long: tried},
		{name: "event streams that nobody reads", run: eventStreams, long: tried},
		{name: "heads that come slowly", run: slowHeads},
		{name: "bodies of many small values", run: manyValues, long: tried},
		{name: "compressed bodies", run: compressedBodies, fits: true},
		{name: "long command lines", run: longCommands, long: costs},
		{name: "output of many commands at once", run: manyOutputs, fits: true, long: costs},
		{name: "programs that want all processors", run: greedyPrograms, fits: true, long: costs},
		{name: "large files", before: largeFiles, run: readFiles, long: costs},
		{name: "large questions", run: largeQuestions},
		{name: "questions about long lines", run: longQuestions, long: costs},
		{name: "large variables in arguments", before: largeVariable, run: expansions, long: costs},
		{name: "results that wait for others", before: largeFiles, run: earlyResults, fits: true},
		{name: "connections and few open files", before: fewFiles, run: connectionsAndCalls},
		{name: "several floods at once", before: func(d *flooded) { largeVariable(d); largeFiles(d) }, run: several, long: costs},
	}
}

// fewFiles starts the daemon again with few descriptors.
func fewFiles(d *flooded) {
	d.stop(os.Interrupt)
	d.command = []string{"sh", "-c", "ulimit -n 256; exec " + filepath.Join(bin, "sandboxd") + " serve"}
	d.start()
	d.share()
}

// connectionsAndCalls take the descriptors of the daemon.
func connectionsAndCalls(d *flooded) {
	for range 20 {
		d.open(posted("/sessions/"+d.session+"/calls", `{"tool":"Bash","args":{"command":"sleep 5"}}`))
	}
	for range 400 {
		d.open("")
	}
}

// several floods come at once.
func several(d *flooded) {
	var g sync.WaitGroup
	all := []func(*flooded){slowReaders, bigBodies, expansions, slowHeads}
	if tier.IsLong() {
		all = append(all, longCommands, manyOutputs, readFiles)
	}
	for _, f := range all {
		g.Go(func() { f(d) })
	}
	g.Wait()
}

// slowly gives a text in parts, and its length is not known.
type slowly struct{ io.Reader }

func chunkedBodies(d *flooded) {
	got := d.at(60, func(i int) (string, string, io.Reader) {
		return "POST", "/sessions", slowly{io.LimitReader(endless('x'), 8<<20)}
	})
	if got[http.StatusTooManyRequests] == 0 {
		d.t.Errorf("60 bodies of 8 MiB were answered with %v, want some refused", got)
	}
	part := "POST /sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	for range 100 {
		d.open(part + fmt.Sprintf("%x\r\n%s", 4<<20, strings.Repeat("x", 3<<20)))
	}
}

// endless is a text of one byte.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func smallRequests(d *flooded) {
	session := d.session
	for range tier.Rounds(d.t, 2, 5) {
		got := d.at(300, func(i int) (string, string, io.Reader) {
			if i%2 == 0 {
				return "GET", "/sessions/" + session, nil
			}
			return "POST", "/sessions/" + session + "/calls", strings.NewReader(`{"tool":"Bash","args":{"command":"echo hi"}}`)
		})
		if got[http.StatusOK] == 0 {
			d.t.Errorf("none is answered: %v", got)
		}
	}
}

func eventStreams(d *flooded) {
	for range 1500 {
		d.open("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for range 400 {
		d.alice.ask("GET", "/healthz", "")
	}
	for range 300 { // what the streams tell of
		if a := d.alice.ask("POST", "/sessions", `{}`); a.Status != http.StatusCreated {
			return // her streams have taken all that she may have
		}
	}
}

func slowHeads(d *flooded) {
	head := "GET /healthz HTTP/1.1\r\nHost: x\r\n"
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "%c%c%c:\r\n", 'A'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	for range 1500 {
		d.open(head + b.String())
	}
}

func manyValues(d *flooded) {
	n := 8<<20 - 100
	bodies := []string{
		`{"metadata":[` + strings.Repeat("1,", n/2-10) + `1]}`,
		`{"calls":[` + strings.Repeat("{},", n/3-10) + `{}]}`,
		`{"metadata":` + strings.Repeat("[", 150) + strings.Repeat("[],", n/3-200) + "[]" + strings.Repeat("]", 150) + `}`,
		strings.Repeat(`{"metadata":`, 100_000),
		strings.Repeat(`[`, n),
		`{` + strings.Repeat(`"":1,`, n/5-10) + `"a":1}`,
		`{"metadata":"` + strings.Repeat(`\u0041`, n/6-10) + `"}`,
	}
	var b strings.Builder
	b.WriteString(`{"metadata":{"x":1`)
	for i := 0; b.Len() < n-50; i++ {
		fmt.Fprintf(&b, `,"%x":1`, i)
	}
	bodies = append(bodies, b.String()+"}}")
	session := d.session
	paths := []string{"/sessions", "/sessions/" + session + "/calls"}
	got := d.at(4*len(bodies), func(i int) (string, string, io.Reader) {
		return "POST", paths[i%2], strings.NewReader(bodies[i/2%len(bodies)])
	})
	if got[http.StatusCreated]+got[http.StatusOK] > 0 {
		d.t.Errorf("some were accepted: %v", got)
	}
}

func compressedBodies(d *flooded) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.CopyN(z, endless(' '), 16<<20) // into memory
	z.Close()
	gigabyte := strings.Repeat(packed.String(), 64) // which is one stream too (RFC 1952, 2.2)
	for _, header := range []string{"Content-Encoding: gzip", "Transfer-Encoding: gzip, chunked", "X: y"} {
		text := "POST /sessions HTTP/1.1\r\nHost: x\r\n" + header + "\r\n"
		if !strings.HasPrefix(header, "Transfer") {
			text += fmt.Sprintf("Content-Length: %d\r\n", len(gigabyte))
		}
		for range 20 {
			d.open(text + "\r\n" + gigabyte)
		}
	}
}

// longLines are command lines of which the guard makes much.
var longLines = []string{
	strings.Repeat("a;", 10_000), strings.Repeat("$(a);", 5_000), strings.Repeat("rm a b c d e f;", 333) + strings.Repeat("git add .;", 2_500),
	"a=1;" + strings.Repeat("$a;", 9_000), strings.Repeat("cat /a/b;", 3_000),
}

func longCommands(d *flooded) {
	session := d.session
	ask := func(i int, more map[string]any) io.Reader {
		more["command"] = longLines[i%len(longLines)]
		if session, ok := more["session_id"]; ok {
			more = map[string]any{
				"session_id": session, "tool": "Bash", "args": map[string]any{"command": more["command"]}, "hold": true,
			}
		}
		b, err := json.Marshal(more)
		if err != nil {
			d.t.Fatal(err)
		}
		return bytes.NewReader(b)
	}
	d.at(tier.Rounds(d.t, 20, 60), func(i int) (string, string, io.Reader) {
		if i%3 == 0 {
			return "POST", "/check", ask(i, map[string]any{})
		}
		return "POST", "/decide", ask(i, map[string]any{"session_id": session})
	})
}

// longQuestions are calls that wait for a person, with command lines of which the guard makes much.
func longQuestions(d *flooded) {
	session := d.session
	if err := d.operator.Do(d.t.Context(), "PATCH", "/sessions/"+session, map[string]any{"mode": "default"}, nil); err != nil {
		d.t.Fatal(err)
	}
	ask := func(i int) {
		line := longLines[i%len(longLines)]
		if i%2 == 0 { // so short that the record keeps what policies saw
			line = line[:14_000]
		}
		line = "git push --force o m;" + line
		d.open(posted("/sessions/"+session+"/calls", fmt.Sprintf(`{"tool":"Bash","args":{"command":%q}}`, line)))
	}
	for i := range 60 {
		ask(i)
	}
	var waiting []struct{ ID string }
	looks := 0
	ok := waitFor(func() bool {
		err := d.operator.Do(d.t.Context(), "GET", "/approvals?limit=3", nil, &waiting)
		if err == nil && len(waiting) >= 2 { // two of the longest leave too little for another
			return true
		}
		// Most came at once, do not fit beside each other, and were refused. New ones would not fit
		// either if they came faster than the guard reads them: about two seconds pass between them.
		if looks++; looks%40 == 0 {
			ask(looks / 40)
		}
		return false
	})
	if !ok {
		d.t.Errorf("%d questions wait, want 2 or more", len(waiting))
	}
}

func manyOutputs(d *flooded) {
	session := d.session
	body := `{"tool":"Bash","args":` + loud + `}`
	var kept []string
	for _, a := range d.answers(tier.Rounds(d.t, 30, 60), func(int) (string, string, io.Reader) {
		return "POST", "/sessions/" + session + "/calls", strings.NewReader(body)
	}) {
		var r client.Result
		switch {
		case a.Status != http.StatusOK:
		case json.Unmarshal(a.Data, &r) != nil:
			d.t.Errorf("got %.300s", a.Data)
		case r.Status == client.StatusSuccess:
			kept = append(kept, r.VarResult)
		case r.Error == nil || !strings.HasSuffix(r.Error.Code, "_busy"):
			d.t.Errorf("a call ended with %s %+v", r.Status, r.Error)
		}
	}
	for range 40 { // and nobody reads
		d.open(posted("/sessions/"+session+"/calls", body))
	}
	// What ran has a variable, whoever reads the answers.
	var vars []client.Var
	ok := waitFor(func() bool {
		err := d.operator.Do(d.t.Context(), "GET", "/sessions/"+session+"/vars?limit=100&type=ToolCallResult", nil, &vars)
		return err == nil && len(vars) >= len(kept)+5
	})
	if !ok {
		d.t.Errorf("%d calls were answered, and %d results are kept", len(kept), len(vars))
	}
	for _, name := range kept {
		if !slices.ContainsFunc(vars, func(v client.Var) bool { return v.Name == name && v.Length >= 100_000 }) {
			d.t.Errorf("the result %s is lost", name)
		}
	}
}

// greedyPrograms want all processors, each in a session of its own: some kernels share the processors among sessions.
func greedyPrograms(d *flooded) {
	const calls, each = 4, 25
	for i := range calls {
		line := fmt.Sprintf("for i in $(seq %d); do setsid sh -c 'while :; do :; done' & done; echo > %d.greedy; wait", each, i)
		d.open(posted("/sessions/"+d.session+"/calls", fmt.Sprintf(`{"tool":"Bash","args":{"command":%q}}`, line)))
	}
	ok := waitFor(func() bool {
		have, err := filepath.Glob(filepath.Join(d.ws, "*.greedy"))
		return err == nil && len(have) == calls
	})
	if !ok {
		d.t.Error("the programs did not start")
	}
}

// largeFiles are what tools would read as a whole.
func largeFiles(d *flooded) {
	image := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 9<<20)...)
	cells := `{"cells":[` + strings.Repeat(`{},`, 3<<20) + `{}]}`
	long := bytes.Repeat([]byte("needle"), 1<<20)
	lines := bytes.Repeat([]byte("needle in a line of some length\n"), 1<<19)
	for name, text := range map[string][]byte{
		"image.png": image, "cells.ipynb": []byte(cells), "long.txt": long, "lines.txt": lines,
		"large.txt": bytes.Repeat([]byte("x\n"), 100<<20), "dir/.gitignore": bytes.Repeat([]byte("*a*b*c*d?\n"), 20_000),
	} {
		path := filepath.Join(d.ws, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(d.ws, ".git"), 0o755); err != nil {
		d.t.Fatal(err)
	}
}

func readFiles(d *flooded) {
	session := d.session
	calls := []string{
		`{"tool":"Read","args":{"file_path":"image.png"}}`, `{"tool":"Read","args":{"file_path":"cells.ipynb"}}`,
		`{"tool":"Read","args":{"file_path":"lines.txt","limit":1000000}}`,
		`{"tool":"Grep","args":{"pattern":"needle","output_mode":"content","head_limit":0}}`,
		`{"tool":"Grep","args":{"pattern":"needle.*needle","multiline":true,"output_mode":"content"}}`,
		`{"tool":"Edit","args":{"file_path":"large.txt","old_string":"x\nx\nx","new_string":"y","replace_all":true}}`,
		`{"tool":"Edit","args":{"file_path":"lines.txt","old_string":"needle","new_string":"other","replace_all":true}}`,
		`{"tool":"NotebookEdit","args":{"notebook_path":"cells.ipynb","cell_id":"cell-1","new_source":"x"}}`,
		`{"tool":"Glob","args":{"pattern":"**/*","path":"dir"}}`,
	}
	d.at(6*len(calls), func(i int) (string, string, io.Reader) {
		return "POST", "/sessions/" + session + "/calls", strings.NewReader(calls[i%len(calls)])
	})
}

// largeQuestions wait for a person, who lists them.
func largeQuestions(d *flooded) {
	session := d.session
	if err := d.operator.Do(d.t.Context(), "PATCH", "/sessions/"+session, map[string]any{"mode": "default"}, nil); err != nil {
		d.t.Fatal(err)
	}
	for i := range 60 {
		d.open(posted("/sessions/"+session+"/calls", fmt.Sprintf(
			`{"tool":"Write","args":{"file_path":"q%d.txt","content":"%s"}}`, i, strings.Repeat("x", 1<<20))))
	}
	var waiting []struct {
		ID   string
		Args json.RawMessage
	}
	ok := waitFor(func() bool {
		err := d.operator.Do(d.t.Context(), "GET", "/approvals?limit=3", nil, &waiting)
		return err == nil && len(waiting) >= 3
	})
	if !ok || slices.ContainsFunc(waiting, func(q struct {
		ID   string
		Args json.RawMessage
	},
	) bool {
		return len(q.Args) < 1<<20
	}) {
		d.t.Errorf("%d questions wait, want 3 or more with all of their arguments", len(waiting))
	}
	answer := map[string]any{"approved": true}
	if err := d.operator.Do(d.t.Context(), "POST", "/approvals/"+waiting[0].ID, answer, nil); err != nil {
		d.t.Error(err)
	}
}

func expansions(d *flooded) {
	one := `{"tool":"Write","args":{"file_path":"e.txt","content":"` + strings.Repeat("$VAR_REF{{big}}", 6) + `"}}`
	d.at(40, func(i int) (string, string, io.Reader) {
		if i%2 == 0 {
			return "POST", "/sessions/big/calls", strings.NewReader(`{"tool":"ReadVar","args":{"name":"big"}}`)
		}
		return "POST", "/sessions/big/calls", strings.NewReader(one)
	})
}

// earlyResults come before their turn: reads run first, and a command is answered first.
func earlyResults(d *flooded) {
	session := d.session
	calls := []string{`{"tool":"Bash","args":{"command":"echo first"}}`}
	for range 60 {
		calls = append(calls, `{"tool":"Read","args":{"file_path":"lines.txt","limit":3000}}`)
	}
	a := d.alice.ask("POST", "/sessions/"+session+"/calls", `{"calls":[`+strings.Join(calls, ",")+`]}`)
	var all []client.Result
	if err := json.Unmarshal(a.Data, &all); err != nil || len(all) != len(calls) {
		d.t.Fatalf("%d results: %v %.300s", len(all), err, a.Raw)
	}
	short := 0
	for i, r := range all {
		if r.Status != client.StatusSuccess {
			d.t.Fatalf("call %d: %s %.300s", i, r.Status, r.FinalText)
		}
		if i == 0 || r.FormattedText != "" {
			continue
		}
		short++
		if !strings.Contains(r.FinalText, "[shortened:") || !strings.Contains(r.FinalText, r.VarResult) || r.VarResult == "" {
			d.t.Fatalf("call %d does not say where its result is: %s", i, r.FinalText)
		}
		v := d.alice.ask("GET", "/sessions/"+session+"/vars/"+r.VarResult, "")
		if v.Status != http.StatusOK || len(v.Data) < 90_000 {
			d.t.Fatalf("the result of call %d is lost: %d %.300s", i, v.Status, v.Raw)
		}
	}
	if short == 0 {
		d.t.Error("no result was shortened: the flood is too small")
	}
}
