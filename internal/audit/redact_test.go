package audit

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// planted are secrets of known forms, with the text around them that must stay.
var planted = []struct{ name, before, secret, after string }{
	{"aws-access-key", "key ", "AKIA" + "IOSFODNN7EXAMPLE", " end"},
	{"github-token", "use ", "ghp_" + strings.Repeat("a1B2", 9), " end"},
	{"github-token", "(", "github_pat_" + strings.Repeat("1A", 20), ")"},
	{"gitlab-token", "", "glpat-" + "abcDEF1234567890wxyz", ""},
	{"anthropic-key", "x=", "sk-ant-" + "api03-abcdefghijkl", " y"},
	{"openai-key", "", "sk-" + "proj-abcdefghijklmnopqrstuv", "\n"},
	{"stripe-key", "", "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", ""},
	{"google-key", "", "AIza" + strings.Repeat("Sy0", 12), ""},
	{"slack-token", "", "xoxb-" + "1234567890-abcdefghij", ""},
	{"slack-token", "Tool_", "xoxb-" + "1234567890-abcdefghij", ""},
	{"npm-token", "//r/:_authToken=", "npm_" + strings.Repeat("x", 36), "\n"},
	{"jwt", "t ", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", " end"},
	{
		"private-key", "a\n",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----", "\nb",
	},
	{"private-key", "cut: ", "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA", ""},
	{"authorization", "Authorization: Bearer ", "abc.DEF-123_456", " end"},
	{"authorization", "curl -H 'Authorization: Basic ", "dXNlcjpwYXNz", "' x"},
	{"authorization", "X-Api-Key: ", "0123456789abcdef", ""},
	{"url-password", "git clone https://me:", "hunter2", "@example.com/x.git"},
	{"url-password", "postgres://u:", "p4ss w"[:4], "@db/x"},
	{"assignment", "DB_PASSWORD=", "correct-horse", " make"},
	{"assignment", `{"client_secret":"`, "s3cr3tvalue", `","x":1}`},
	{"assignment", "password: ", "tr0ub4dor", "\nuser: me"},
	{"option", "mysql --password ", "hunter22", " -u root"},
}

func TestT29_PlantedSecretsAreRedacted(t *testing.T) {
	r := NewRedactor()
	for _, p := range planted {
		got := r.String(p.before + p.secret + p.after)
		if want := p.before + "[redacted:" + p.name + "]" + p.after; got != want {
			t.Errorf("%q:\n got %q\nwant %q", p.before+p.secret+p.after, got, want)
		}
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	r := NewRedactor()
	for _, s := range []string{
		"go test ./... | tail -5", "cat README.md", "git push --force origin main", "https://example.com/a:b/c",
		"ls -la /home/me/.ssh", "the token is expired", "export PATH=$PATH:/usr/bin", "PASSWORD=$DB_PASSWORD make",
		"grep -r token .", "task-skill-list", "sk-short", "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
		"ssh://git@github.com/x/y.git", "basic usage of bearers", "token: $(cat f)", "mode:default",
		"call_ABCDEFGHIJKLMNOP",
	} {
		if got := r.String(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestKnownValuesGoInEverySpelling(t *testing.T) {
	const secret = `p"ä&ss/word+1`
	r := NewRedactor(secret, "tiny")
	quoted, _ := json.Marshal(secret)
	for _, s := range []string{
		secret, string(quoted), url.QueryEscape(secret), url.PathEscape(secret),
		hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		if got := r.String("<" + s + ">"); strings.Contains(got, strings.Trim(s, `"`)) ||
			!strings.Contains(got, "[redacted:secret]") {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := r.String("a tiny thing"); got != "a tiny thing" {
		t.Errorf("a value of four bytes blanks ordinary text: %q", got)
	}
	r.Add("p\"ä&ss/word+123")
	if got := r.String(`p"ä&ss/word+123`); got != "[redacted:secret]" {
		t.Errorf("the shorter of two values won: %q", got)
	}
}

// A secret that ran into another one stands by itself when that one is gone.
func TestWhatIsLeftOfASecretIsLookedAtAgain(t *testing.T) {
	const key = "AKIA234567ABCDEFGHIJ"
	text := key + "hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"
	if got := NewRedactor().String(text); got != mark("aws-access-key")+mark("slack-webhook") {
		t.Errorf("got %q", got)
	}
}

func TestEnvSecrets(t *testing.T) {
	got := EnvSecrets([]string{"HOME=/root", "GITHUB_TOKEN=abc123", "db_password=x y", "SANDBOXD_TOKEN_FILE=/etc/t", "OPENAI_API_KEY=k"})
	if want := []string{"abc123", "x y", "k"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEachWordThatNamesASecret: a variable of the environment is told to the
// redactor by its name, in any case.
func TestEachWordThatNamesASecret(t *testing.T) {
	for _, name := range []string{
		"TOKEN", "GITHUB_TOKEN", "client_secret", "PGPASSWORD", "MYSQL_PASSWD", "KEY_PASSPHRASE", "AWS_CREDENTIALS",
		"OPENAI_API_KEY", "MAPS_APIKEY", "SSH_PRIVATE_KEY", "AWS_ACCESS_KEY_ID",
	} {
		if got := EnvSecrets([]string{name + "=value=1"}); len(got) != 1 || got[0] != "value=1" {
			t.Errorf("%s: got %q, want its value", name, got)
		}
	}
	for _, name := range []string{"HOME", "PATH", "KEY", "SECRET_FILE", "TOKEN_FILE"} {
		if got := EnvSecrets([]string{name + "=value"}); len(got) != 0 {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
	}
}

func TestRedactingTwiceIsRedactingOnce(t *testing.T) {
	r := NewRedactor("hunter2-value")
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "before")
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			p := rapid.SampledFrom(planted).Draw(t, "secret")
			s += p.before + p.secret + p.after + rapid.SampledFrom([]string{
				" ", "\n", "hunter2-value", "password=", "Bearer ",
			}).Draw(t, "glue")
		}
		once := r.String(s)
		if twice := r.String(once); twice != once {
			t.Fatalf("%q\n once %q\ntwice %q", s, once, twice)
		}
	})
}

// A hint is in every match, however it is written.
func TestT29_EveryMatchIsHinted(t *testing.T) {
	for _, p := range patterns() {
		match := rapid.StringMatching(regexp.MustCompile(`\\b|\$`).ReplaceAllString(p.re.String(), ""))
		rapid.Check(t, func(t *rapid.T) {
			if s := match.Draw(t, "match"); p.re.MatchString(s) && !p.hinted(s) {
				t.Fatalf("%s: %q", p.name, s)
			}
		})
	}
}

func FuzzRedact(f *testing.F) {
	for _, p := range planted {
		f.Add(p.before + p.secret + p.after)
	}
	r := NewRedactor()
	f.Fuzz(func(t *testing.T, s string) {
		if once := r.String(s); r.String(once) != once {
			t.Errorf("%q: once %q, twice %q", s, once, r.String(once))
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	r := NewRedactor("some-known-secret")
	for b.Loop() {
		_ = r.String("go test ./... | tail -5 && git status --short")
	}
}
