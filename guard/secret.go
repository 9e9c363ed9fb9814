package guard

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// Secret is a header that the daemon puts into the requests of programs to one host. It says where the secret is,
// and does not hold it.
type Secret struct {
	// Host is a name, or name:port. Without a port it is 443.
	Host string `json:"host" yaml:"host"`
	// Header replaces the header of this name that the program sent. "" is Authorization.
	Header string `json:"header,omitempty" yaml:"header,omitempty"`
	// Value is the value of the header. {{file}}, {{credential}} or {{command}} in it stands for the secret. "" is
	// the secret alone.
	Value string `json:"value,omitempty" yaml:"value,omitempty"`
	// User makes the value that of HTTP Basic authentication: this user, with the secret as
	// the password.
	User string `json:"user,omitempty" yaml:"user,omitempty"`

	// One of these is the source: an absolute path, the name of a systemd credential, or a
	// program with its arguments, which prints the secret.
	File       string   `json:"file,omitempty" yaml:"file,omitempty"`
	Credential string   `json:"credential,omitempty" yaml:"credential,omitempty"`
	Command    []string `json:"command,omitempty" yaml:"command,omitempty"`
}

// UnmarshalJSON refuses unknown keys, and a key that is given twice.
func (s *Secret) UnmarshalJSON(text []byte) error {
	type plain Secret
	return cmp.Or(strictjson.CheckFolded(text), strictjson.Decode(text, (*plain)(s)))
}

// Name returns the canonical name of the header.
func (s Secret) Name() string {
	if s.Header == "" {
		return "Authorization"
	}
	return http.CanonicalHeaderKey(s.Header)
}

// Source returns the key that says where the secret is: file, credential or command.
func (s Secret) Source() string {
	switch {
	case s.File != "":
		return "file"
	case s.Credential != "":
		return "credential"
	}
	return "command"
}

// placeholder returns what stands for the secret in Value.
func (s Secret) placeholder() string { return "{{" + s.Source() + "}}" }

// Fill returns the value of the header with the secret in it.
func (s Secret) Fill(secret string) string {
	switch {
	case s.User != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(s.User+":"+secret))
	case s.Value == "":
		return secret
	}
	return strings.Replace(s.Value, s.placeholder(), secret, 1)
}

// Forms returns the forms of a sent secret that an answer may repeat: the secret itself, and the parts and the whole
// of Basic authentication.
func (s Secret) Forms(secret string) []string {
	if s.User == "" {
		return []string{secret}
	}
	pair := s.User + ":" + secret
	return []string{secret, pair, base64.StdEncoding.EncodeToString([]byte(pair))}
}

// hopHeaders are the headers that decide about the connection, about the length of a message, or to
// which host a request goes.
var hopHeaders = []string{
	"Host", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length",
	"Content-Encoding", "Proxy-Authorization", "Proxy-Connection", "Expect", "Range", "Accept-Encoding",
}

func (s Secret) validate() error {
	e, err := parseEndpoint(s.Host)
	switch {
	case s.Host == "":
		return errors.New("host is missing; a secret belongs to one host")
	case err != nil:
		return err
	case e.wild:
		return fmt.Errorf("%q: a secret belongs to one host; write its whole name", s.Host)
	case !httpguts.ValidHeaderFieldName(s.Name()):
		return fmt.Errorf("%q is not the name of a header", s.Header)
	case slices.Contains(hopHeaders, s.Name()):
		return fmt.Errorf("the header %s says how a message is sent; it can hold no secret", s.Name())
	case s.User != "" && (s.Value != "" || s.Name() != "Authorization"):
		return errors.New("user makes the value of Authorization; leave out value and header")
	case strings.ContainsAny(s.User, ":\r\n\x00"):
		return fmt.Errorf("user %q has a colon or a line break, which Basic authentication cannot carry", s.User)
	case s.Value != "" && !httpguts.ValidHeaderFieldValue(s.Value):
		return errors.New("value has a line break or a control character")
	}
	if err := s.validateSource(); err != nil {
		return err
	}
	if p := s.placeholder(); s.Value != "" && (strings.Count(s.Value, p) != 1 || strings.Count(s.Value, "{{") != 1) {
		return fmt.Errorf("value must have %s once, where the secret goes; "+
			"the secret itself has no place in the configuration", p)
	}
	return nil
}

func (s Secret) validateSource() error {
	sources := 0
	for _, given := range []bool{s.File != "", s.Credential != "", len(s.Command) > 0} {
		if given {
			sources++
		}
	}
	switch {
	case sources != 1:
		return errors.New("want one source: file, credential or command")
	case s.File != "" && !filepath.IsAbs(s.File):
		return fmt.Errorf("file %q is relative; write the absolute path", s.File)
	case len(s.Command) > 0 && !filepath.IsAbs(s.Command[0]):
		return fmt.Errorf("command %q is relative; write the absolute path of the program", s.Command[0])
	case s.Credential != "" && (s.Credential != filepath.Base(s.Credential) || strings.Trim(s.Credential, ".") == ""):
		return fmt.Errorf("credential %q is no name of a systemd credential", s.Credential)
	}
	return nil
}

// tlsPort is the port of an entry of Intercept or Secrets that names none.
const tlsPort = 443

func (e endpoint) intercepts(host string, port int) bool {
	return e.matches(host) && (e.port == port || e.port == 0 && port == tlsPort)
}

// Intercepts reports whether the daemon reads the requests of programs to a host inside TLS.
func (n Network) Intercepts(host string, port int) bool {
	return slices.ContainsFunc(n.Intercept, func(text string) bool {
		e, err := parseEndpoint(text)
		return err == nil && e.intercepts(host, port)
	})
}

// Intercepted returns the names of Intercept, each once; for *.parent it returns the parent.
func (n Network) Intercepted() []string {
	var out []string
	for _, text := range n.Intercept {
		if e, err := parseEndpoint(text); err == nil && !slices.Contains(out, e.host) {
			out = append(out, e.host)
		}
	}
	return out
}

// Withheld returns n for those who may not know where secrets are. It still says which host gets which header.
func (n Network) Withheld() Network {
	n.Secrets = slices.Clone(n.Secrets)
	for i, s := range n.Secrets {
		n.Secrets[i] = Secret{Host: s.Host, Header: s.Header, Credential: "withheld"}
	}
	return n
}

// SecretsFor returns the secrets of a host.
func (n Network) SecretsFor(host string, port int) []Secret {
	var out []Secret
	for _, s := range n.Secrets {
		if e, err := parseEndpoint(s.Host); err == nil && e.intercepts(host, port) {
			out = append(out, s)
		}
	}
	return out
}

func (n Network) validateSecrets() error {
	for _, text := range n.Intercept {
		e, err := parseEndpoint(text)
		if err == nil {
			if _, isAddr := netip.ParseAddr(e.host); isAddr == nil || ownLoopback(e.host) {
				err = fmt.Errorf("%q: only a name can be intercepted", text)
			}
		}
		if err == nil && e.port == 80 {
			err = fmt.Errorf("%q: requests on port 80 are read anyway; only TLS is intercepted", text)
		}
		if err != nil {
			return fmt.Errorf("network.intercept: %w", err)
		}
	}
	names := map[string]bool{}
	for i, s := range n.Secrets {
		err := s.validate()
		if err == nil {
			e, _ := parseEndpoint(s.Host)
			if n.ofProxy(e) && s.Header != "" {
				err = errors.New("the secret of the proxy goes into Proxy-Authorization; leave out header")
			}
			key := fmt.Sprint(e.host, cmp.Or(e.port, tlsPort), s.Name())
			if names[key] {
				err = fmt.Errorf("%s has two secrets for the header %s", s.Host, s.Name())
			}
			names[key] = true
		}
		if err != nil {
			return fmt.Errorf("network.secrets[%d]: %w", i, err)
		}
	}
	if n.CAFile != "" && !filepath.IsAbs(n.CAFile) {
		return fmt.Errorf("network.caFile: %q is relative; write the absolute path", n.CAFile)
	}
	return nil
}

// Unused returns the indexes in Secrets of those that no request can get.
func (n Network) Unused() []int {
	var out []int
	for i, s := range n.Secrets {
		e, err := parseEndpoint(s.Host)
		if err == nil && !n.Intercepts(e.host, cmp.Or(e.port, tlsPort)) && !n.ofProxy(e) && !n.searches(e) {
			out = append(out, i)
		}
	}
	return out
}

// interceptWarnings names hosts that are intercepted but cannot be reached.
func (n Network) interceptWarnings() []string {
	var out []string
	for _, text := range n.Intercept {
		e, err := parseEndpoint(text)
		if err != nil || e.wild {
			continue
		}
		if v, _ := n.Connect(e.host, cmp.Or(e.port, tlsPort)); v == Deny {
			out = append(out,
				fmt.Sprintf("network.intercept: %s may not be reached; list it in network.allowedDomains", text))
		}
	}
	return out
}
