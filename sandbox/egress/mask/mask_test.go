package mask_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/sandbox/egress/mask"
)

func Example() {
	set := mask.New([]string{"ghp_0123456789"})
	fmt.Println(set.Text(`{"Authorization": "Bearer ghp_0123456789"}`))
	// Output: {"Authorization": "Bearer **************"}
}

func read(tb interface{ Fatal(...any) }, set *mask.Set, src io.Reader) string {
	got, err := io.ReadAll(set.Reader(io.NopCloser(src)))
	if err != nil {
		tb.Fatal(err)
	}
	return string(got)
}

// TestForms: how programs write a secret, each alone and in a text.
func TestForms(t *testing.T) {
	const secret = `p@ss/"word+<&>=ü!`
	set := mask.New([]string{secret, "short", "another-secret"})
	for _, form := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), "another-secret",
		base64.URLEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("-" + secret))[2:], base64.StdEncoding.EncodeToString([]byte("--" + secret))[3:],
	} {
		text := set.Text("a " + form + " b")
		if strings.Contains(text, form) || len(text) != len(form)+4 || strings.Count(text, "*") < len(form)-3 {
			t.Errorf("%s is %s", form, text)
		}
	}
	if got := mask.New([]string{"ghp_ABCdef012"}).Text("GHP_ABCDEF012 and ghp_abcdef012"); got != "************* and *************" {
		t.Errorf("in another case: %s", got)
	}
	if got := set.Text("this is short"); got != "this is short" {
		t.Errorf("got %q", got)
	}
	if mask.New([]string{"", "short"}) != nil {
		t.Error("a set of secrets that cannot be masked")
	}
}

// TestFormsOfOtherLanguages: what their libraries make of a secret, which is not what Go makes.
func TestFormsOfOtherLanguages(t *testing.T) {
	const secret = `s3/"w<&>'=ü~(k`
	set := mask.New([]string{secret})
	for name, form := range map[string]string{
		"Python quote":           "s3/%22w%3C%26%3E%27%3D%C3%BC~%28k",
		"Python quote of all":    "s3%2F%22w%3C%26%3E%27%3D%C3%BC~%28k",
		"encodeURIComponent":     "s3%2F%22w%3C%26%3E'%3D%C3%BC~(k",
		"encodeURI":              "s3/%22w%3C&%3E'=%C3%BC~(k",
		"a query in lower case":  "s3%2f%22w%3c%26%3e%27%3d%c3%bc~%28k",
		"a form of a browser":    "s3%2F%22w%3C%26%3E%27%3D%C3%BC%7E%28k",
		"all for a URL":          "%73%33%2F%22%77%3C%26%3E%27%3D%C3%BC%7E%28%6B",
		"all for a URL, lower":   "%73%33%2f%22%77%3c%26%3e%27%3d%c3%bc%7e%28%6b",
		"Python html.escape":     "s3/&quot;w&lt;&amp;&gt;&#x27;=ü~(k",
		"PHP htmlspecialchars":   "s3/&quot;w&lt;&amp;&gt;&#039;=ü~(k",
		"html without quotes":    "s3/\"w&lt;&amp;&gt;'=ü~(k",
		"html with a name for '": "s3/&quot;w&lt;&amp;&gt;&apos;=ü~(k",
		"all decimal":            "&#115;&#51;&#47;&#34;&#119;&#60;&#38;&#62;&#39;&#61;&#252;&#126;&#40;&#107;",
		"all hex":                "&#x73;&#x33;&#x2f;&#x22;&#x77;&#x3c;&#x26;&#x3e;&#x27;&#x3d;&#xfc;&#x7e;&#x28;&#x6b;",
		"all hex, upper":         "&#x73;&#x33;&#x2F;&#x22;&#x77;&#x3C;&#x26;&#x3E;&#x27;&#x3D;&#xFC;&#x7E;&#x28;&#x6B;",
		"Python json.dumps":      `s3/\"w<&>'=\u00fc~(k`,
		"JSON.stringify":         `s3/\"w<&>'=ü~(k`,
		"PHP json_encode":        `s3\/\"w<&>'=\u00fc~(k`,
		"all for JSON":           `\u0073\u0033\u002f\u0022\u0077\u003c\u0026\u003e\u0027\u003d\u00fc\u007e\u0028\u006b`,
		"all for JSON, upper":    `\u0073\u0033\u002F\u0022\u0077\u003C\u0026\u003E\u0027\u003D\u00FC\u007E\u0028\u006B`,
		"upper case":             `S3/"W<&>'=Ü~(K`,
	} {
		if got := set.Text("a " + form + " b"); got != "a "+strings.Repeat("*", len(form))+" b" {
			t.Errorf("%s: %s is %s", name, form, got)
		}
	}
}

// TestNamesHaveNoCase: a header's name is written as the libraries like it.
func TestNamesHaveNoCase(t *testing.T) {
	set := mask.New([]string{"ghp_S3cretS3cret"})
	if got, want := set.Name("X-Ghp_s3crets3cret"), "X-****************"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := set.Name("Content-Type"); got != "Content-Type" {
		t.Errorf("got %q", got)
	}
}

// TestReadsOfAnySize: the same text comes out, with stars, however it comes in.
func TestReadsOfAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[ab]{8,20}|[a-f]{9}x{40}`), 1, 3).Draw(t, "secrets")
		set := mask.New(secrets)
		pieces := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(secrets), rapid.StringMatching(`[ -~]{0,9}`))).
			Draw(t, "pieces")
		text := strings.Join(pieces, ":") + "." // the end is no beginning of a secret
		want := set.Text(text)
		for _, s := range secrets {
			if strings.Contains(want, s) {
				t.Fatalf("%q is in %q", s, want)
			}
		}
		if got := read(t, set, strings.NewReader(text)); got != want {
			t.Fatalf("at once: %q, want %q", got, want)
		}
		for _, got := range []string{
			read(t, set, iotest.OneByteReader(strings.NewReader(text))),
			read(t, set, iotest.HalfReader(strings.NewReader(text))),
		} {
			if len(got) != len(text) {
				t.Fatalf("%d bytes of %d", len(got), len(text))
			}
			// The first bytes of a secret may be passed on before it is known to be one.
			for _, s := range secrets {
				if strings.Contains(got, s[3:]) && !strings.Contains(want, s[3:]) {
					t.Fatalf("%q is in %q", s, got)
				}
			}
		}
	})
}

// TestWhatIsNoSecretDoesNotWait: a message that ends as a secret begins is passed on.
func TestWhatIsNoSecretDoesNotWait(t *testing.T) {
	set := mask.New([]string{"ghp_0123456789"})
	in, out := io.Pipe()
	r := set.Reader(in)
	defer r.Close()
	go out.Write([]byte("a message: gh"))
	buf := make([]byte, 64)
	n, err := io.ReadAtLeast(r, buf, len("a message: gh"))
	if err != nil || string(buf[:n]) != "a message: gh" {
		t.Fatalf("got %q, %v", buf[:n], err)
	}
	go func() {
		out.Write([]byte("p_0123"))
		out.Write([]byte("456789!"))
		out.Close()
	}()
	rest, err := io.ReadAll(r)
	if err != nil || string(rest) != strings.Repeat("*", len("p_0123456789"))+"!" {
		t.Errorf("got %q, %v", rest, err)
	}
}

// TestHalfOfASecretAtTheEnd is too much; a beginning of some bytes is not.
func TestHalfOfASecretAtTheEnd(t *testing.T) {
	set := mask.New([]string{"ghp_0123456789"})
	for text, want := range map[string]string{"a ghp_0123": "a ********", "a ghp_": "a ghp_"} {
		if got := read(t, set, strings.NewReader(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSecretsThatShareText: a read that ends where the shorter one ends, or where two overlap, hides both.
func TestSecretsThatShareText(t *testing.T) {
	for name, secrets := range map[string][]string{
		"one begins another": {"abcdefgh", "abcdefghSECRETTAIL"},
		"they overlap":       {"abcdefghijklmnop", "ijklmnopSECRETTAIL"},
		"one in another":     {"12abcdefghSECRETTAIL", "abcdefgh"},
		"a repetition":       {"abababab", "babababaX"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mask.New(secrets)
			text := strings.Join(secrets, " and ") + " at abcdefghijklmnopSECRETTAIL, 12abcdefghSECRETTAIL, abababababaX."
			want := set.Text(text)
			for cut := range text {
				r := io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:]))
				got := read(t, set, r)
				// Three bytes at the end of a read may be passed on before they are known to be of a secret.
				for i := max(0, cut-3); i < cut; i++ {
					if want[i] == '*' {
						got = got[:i] + "*" + got[i+1:]
					}
				}
				if got != want {
					t.Errorf("cut at %d: got  %q\nwant %q", cut, got, want)
				}
			}
		})
	}
	set := mask.New([]string{"abcdefghijkl", "abcdefghijklmnopqrstuvwx"})
	if got, want := read(t, set, strings.NewReader("a abcdefghijk")), "a ***********"; got != want {
		t.Errorf("the end is cut: got %q, want %q", got, want)
	}
}

func BenchmarkReader(b *testing.B) {
	set := mask.New([]string{"ghp_0123456789abcdefghijklmnopqrstuv"})
	text := bytes.Repeat([]byte("all work and no play makes Jack a dull boy. "), 1<<15)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		io.Copy(io.Discard, set.Reader(io.NopCloser(bytes.NewReader(text))))
	}
}
