package integration

import (
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// confess answers with what it was told, in the way that the path names.
func confess(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Authorization")
	packed := func(name string, open func(io.Writer) io.WriteCloser) {
		w.Header().Set("Content-Encoding", name)
		z := open(w)
		fmt.Fprintln(z, key)
		z.Close()
	}
	raw := func(text string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
	}
	switch r.URL.Path {
	case "/headers":
		w.Header().Set("X-Echo", key)
		w.Header().Set("Set-Cookie", "t="+key)
		w.Header().Set("WWW-Authenticate", `Basic realm="`+key+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	case "/redirect":
		w.Header().Set("Location", "http://plain.test/"+strings.TrimPrefix(key, "Bearer "))
		w.WriteHeader(http.StatusFound)
	case "/trailers":
		w.Header().Set("Trailer", "X-After")
		fmt.Fprintln(w, "body")
		w.Header().Set("X-After", key)
		w.Header().Set(http.TrailerPrefix+"X-Unannounced", key)
	case "/early":
		w.Header().Set("Link", key)
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprintln(w, "body")
	case "/gzip":
		packed("gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	case "/deflate":
		packed("deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	case "/twice": // and no list of codings is opened
		packed("gzip, gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	case "/br", "/zstd":
		packed(strings.TrimPrefix(r.URL.Path, "/"), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	case "/chunks":
		for _, c := range []byte(key) {
			_, _ = w.Write([]byte{c})
			_ = http.NewResponseController(w).Flush()
		}
	case "/range":
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusPartialContent)
		}
		http.ServeContent(w, r, "f.txt", time.Time{}, strings.NewReader(key))
	case "/upload":
		_, _ = io.Copy(w, r.Body)
		fmt.Fprintf(w, " %q\n", r.Header)
	case "/status":
		raw("HTTP/1.1 200 " + key + "\r\nContent-Length: 0\r\n\r\n")
	case "/nohttp":
		raw(key + "\r\n\r\n")
	case "/badlength":
		raw("HTTP/1.1 200 OK\r\nContent-Length: " + key + "\r\n\r\n")
	case "/badheader":
		raw("HTTP/1.1 200 OK\r\n" + key + "\r\n\r\n")
	case "/badchunk":
		raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + key + "\r\n")
	case "/badcoding":
		raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + key + "\r\n\r\n")
	case "/more":
		raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 " + key + "\r\n\r\n" + key)
	case "/upgrade":
		raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Echo: " + key + "\r\n\r\n" + key + "\r\n")
	default:
		fmt.Fprintf(w, "%s %s %x\n", key, base64.StdEncoding.EncodeToString([]byte(key)), key)
	}
}

// told is what results, and every place where calls can be read afterwards, say.
func (d *running) told(session string, results ...client.Result) string {
	d.t.Helper()
	paths := []string{"/audit?limit=200", "/status", "/policies", "/hooks", "/approvals?status=all", "/changes?path=" + d.ws}
	for _, of := range []string{"", "/vars", "/messages", "/origins", "/changes", "/tools?deferred=true", "/prompt"} {
		paths = append(paths, "/sessions/"+session+of)
	}
	var all strings.Builder
	for _, r := range results {
		text, _ := json.Marshal(r)
		all.Write(text)
		paths = append(paths, "/calls/"+r.CallID)
	}
	for _, path := range paths {
		var out json.RawMessage
		if err := d.operator.Do(d.t.Context(), "GET", path, nil, &out); err != nil {
			d.t.Errorf("%s: %v", path, err)
		}
		all.Write(out)
	}
	for _, show := range [][]string{{"network", "secrets"}, {"network", "explain", "api.test"}} {
		cmd := exec.Command(filepath.Join(bin, "sandboxd"), show...)
		cmd.Env, cmd.Dir = d.env, d.ws
		out, err := cmd.CombinedOutput()
		if err != nil {
			d.t.Errorf("%q: %v %s", show, err, out)
		}
		all.Write(out)
	}
	return all.String()
}

// TestLearnASecret: what a program, its model and whoever reads the record may try with a host that says
// back what it is told. It finds nothing, and the host did get the secret each time.
func TestLearnASecret(t *testing.T) { asEach(t, learnASecret) }

func learnASecret(t *testing.T, uid int) {
	k := newKeeperAs(t, uid, `, value: "Bearer {{file}}"`, confess)
	s := k.session()
	ways := []string{
		"headers", "redirect", "trailers", "early", "gzip", "deflate", "twice", "br", "zstd", "chunks", "range", "upload", "status",
		"nohttp", "badlength", "badheader", "badchunk", "badcoding", "more", "upgrade", "any",
	}
	k.write("ws/learn.sh", `ways='https://api.test/{`+strings.Join(ways, ",")+`}'
for http in --http1.1 --http2; do
curl -sSi --raw $http -m 20 "$ways"
curl -sSi $http -m 20 -r 0-9,10-19 -H 'Accept-Encoding: br, gzip, zstd' -H 'TE: trailers' -F a=b -X GET "$ways"
curl -sSi $http -m 20 -L -v -H 'Authorization: Bearer mine' "$ways"
done 2>&1
curl -sSi --http1.1 -m 20 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Key: eA==' -H 'Sec-WebSocket-Version: 13' https://api.test/upgrade 2>&1
curl -sSi -m 20 -X TRACE https://api.test/any; curl -sSI -m 20 https://api.test/any; curl -sSi -m 20 http://api.test/any
curl -sSi -m 20 -H 'Connection: Authorization' https://api.test/any
env; set; cat /proc/self/environ /proc/*/cmdline /proc/net/* /run/.trust/* | tr '\0' '\n'; ls -laR /run
`)
	tail, seen := exec.Command(filepath.Join(bin, "sandboxd"), "network", "tail"), &lockedBuffer{}
	tail.Env, tail.Dir, tail.Stdout, tail.Stderr = k.env, k.ws, seen, seen
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	args, _ := json.Marshal(map[string]any{"command": "sh ./learn.sh > kept 2>&1; tail -c 20000 kept", "timeout": 280000})
	r := k.call(s, "Bash", string(args))
	said, _ := json.Marshal(r)
	kept, err := os.ReadFile(filepath.Join(k.ws, "kept"))
	if err != nil || len(kept) < 5000 {
		t.Fatalf("%d bytes, %v: %s", len(kept), err, said)
	}
	k.forget(s)
	page := k.call(s, "WebFetch", `{"url":"https://api.test/any"}`)
	all := string(kept) + k.told(s, r, page)
	if !waitFor(func() bool { return strings.Contains(seen.String(), "api.test") }) {
		t.Errorf("the tail shows %s", seen)
	}
	_ = tail.Process.Signal(os.Interrupt)
	_ = tail.Wait()
	all += seen.String()
	k.stop(os.Interrupt)
	all += k.log.String()
	for _, form := range []string{
		k.token, k.token[:len(k.token)/2], k.token[len(k.token)/2:], base64.StdEncoding.EncodeToString([]byte("Bearer " + k.token)),
		fmt.Sprintf("%x", k.token),
	} {
		if at := strings.Index(all, form); at >= 0 {
			t.Errorf("%s is learnt: %s", form, all[max(0, at-600):min(len(all), at+200)])
		}
		k.searchFor(form)
	}
	// The last one is that of WebFetch, which sends none.
	got := strings.Split(k.sent(), "\n")
	if last := len(got) - 1; len(got) < 4*len(ways) || strings.Count(k.sent(), "Bearer "+k.token) != last || got[last] != "" {
		t.Errorf("the host got %d: %q", len(got), got)
	}
}
