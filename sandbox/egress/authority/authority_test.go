package authority_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/egress/authority"
)

func TestLeavesAreOfTheirAuthority(t *testing.T) {
	a, err := authority.New("api.test")
	if err != nil {
		t.Fatal(err)
	}
	other, err := authority.New("api.test")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.Leaf("api.test")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := a.Leaf("api.test"); again != leaf {
		t.Error("each handshake gets another certificate")
	}
	for _, tt := range []struct {
		who  *authority.Authority
		name string
		ok   bool
	}{{a, "api.test", true}, {a, "other.test", false}, {other, "api.test", false}} {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(tt.who.PEM()))
		_, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: tt.name})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want ok=%t", tt.name, err, tt.ok)
		}
	}
	b, err := authority.New("api.test", "below.test")
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"api.test": true, "a.below.test": true, "bank.test": false, "notapi.test": false,
	} {
		leaf, err := b.Leaf(name)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(b.PEM()))
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); (err == nil) != ok {
			t.Errorf("%s: %v, want ok=%t", name, err, ok)
		}
	}
	if strings.Contains(a.PEM(), "KEY") {
		t.Error("the key is in what programs get")
	}
	if leaf.Leaf.IsCA {
		t.Error("a leaf can sign")
	}
}

func TestNoAuthorityIsTrustedForEveryHost(t *testing.T) {
	for _, names := range [][]string{nil, {""}, {"api.test", ""}} {
		if _, err := authority.New(names...); err == nil {
			t.Errorf("an authority was made for the names %q", names)
		}
	}
}

// TestAnAuthorityEnds, and what it signed with it; before that it says that it is old.
func TestAnAuthorityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := authority.New("api.test")
		if err != nil {
			t.Fatal(err)
		}
		const day = 24 * time.Hour
		time.Sleep(6 * day)
		if a.Stale() {
			t.Error("it is old after six days")
		}
		leaf, err := a.Leaf("api.test")
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(a.PEM()))
		time.Sleep(2 * day)
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool}); err != nil || !a.Stale() {
			t.Errorf("after eight days: %v, stale=%t", err, a.Stale())
		}
		time.Sleep(6*day - time.Hour)
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool}); err != nil {
			t.Errorf("at the end of two weeks: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool}); err == nil {
			t.Error("it is good for more than two weeks")
		}
		var none *authority.Authority
		if none.Stale() {
			t.Error("none is old")
		}
	})
}
