package egress

import (
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

// TestAnEncodingIsTheHostsWord: its name is not in the refusal, nor in the ledger.
func TestAnEncodingIsTheHostsWord(t *testing.T) {
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", token)
		io.WriteString(rw, "x")
	})
	code, body := get(t, i.programs(false), "https://api.test/")
	all := strings.ToLower(fmt.Sprint(body, i.call.End(), i.seen))
	if code != http.StatusForbidden || strings.Contains(all, strings.ToLower(token[:8])) {
		t.Errorf("got %d %s", code, all)
	}
}

// TestRulesJudgeWhatIsSent: the path that a rule sees is the one that the host gets.
func TestRulesJudgeWhatIsSent(t *testing.T) {
	i := newIntercepted(t)
	i.deny = func(k Connection) bool { return strings.HasPrefix(k.Path, "/admin") }
	i.serve("api.test", certificate(t, "api.test"), func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the host was asked for %s", r.RequestURI)
	})
	for _, h2 := range []bool{false, true} {
		for _, path := range []string{"/admin", "/%61dmin", "/%61%64%6D%69%6e/x"} {
			if code, body := get(t, i.programs(h2), "https://api.test"+path); code != http.StatusForbidden {
				t.Errorf("%s: got %d %s", path, code, body)
			}
		}
	}
}

// TestEchoesOfWhatWasSentBefore: in the clear, by another host, compressed, and after the secret
// has become another one.
func TestEchoesOfWhatWasSentBefore(t *testing.T) {
	i := newIntercepted(t)
	var heard []string
	cert := certificate(t, "api.test", "other.test")
	i.serve("api.test", cert, func(rw http.ResponseWriter, r *http.Request) {
		heard = append(heard, r.Header.Get("Authorization"))
		fmt.Fprint(rw, heard)
	})
	say := func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("asked with %v", r.Header)
		}
		rw.Header().Set("X-Heard", heard[0])
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		fmt.Fprint(z, heard)
		z.Close()
	}
	i.serve("other.test", cert, say)
	i.web("plain.test", say)
	c := i.programs(false)
	get(t, c, "https://api.test/")
	const later = "ghp_L4terL4terL4ter"
	i.secret = func() (string, error) { return later, nil }
	for _, url := range []string{"https://api.test/", "https://other.test/", "http://plain.test/"} {
		r, _ := http.NewRequest(http.MethodGet, url, nil)
		r.Header.Set("Range", "bytes=0-9")
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		want := "[Bearer " + strings.Repeat("*", len(token)) + " Bearer " + strings.Repeat("*", len(later)) + "]"
		if all := fmt.Sprint(res.Header); string(body) != want || strings.Contains(all, token) || err != nil {
			t.Errorf("%s: got %s %s, %v", url, body, all, err)
		}
	}
}

// TestEchoesOfBasic: the whole value in the ways of a secret, and in the name of a header.
func TestEchoesOfBasic(t *testing.T) {
	i := newIntercepted(t, func(o *CallOptions) {
		o.Network.Secrets = []guard.Secret{{Host: "api.test", User: "me", File: "/token"}}
	})
	i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		rw.Header().Set("X-"+password, "1")
		fmt.Fprintf(rw, "%x", strings.TrimPrefix(r.Header.Get("Authorization"), "Basic "))
	})
	res, err := i.programs(false).Get("https://api.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	whole := fmt.Sprintf("%x", base64.StdEncoding.EncodeToString([]byte("me:"+token)))
	names := strings.ToLower(fmt.Sprint(res.Header))
	if string(body) != strings.Repeat("*", len(whole)) || strings.Contains(names, strings.ToLower(token)) {
		t.Errorf("got %s %s", body, names)
	}
}
