// Package authority is a certificate authority for hosts whose TLS ends at the daemon.
//
//	a, err := authority.New("api.test")
//	bundle := a.PEM()               // what programs of one session trust
//	cert, err := a.Leaf("api.test") // for tls.Config.GetCertificate
//	if a.Stale() { … }              // before each call: make another one
//
// Guaranteed: the key stays in memory and signs only the certificate of the authority itself and
// those of hosts. Who trusts the authority trusts it only for its names and names below them
// (RFC 5280 4.2.1.10). That bounds DNS names and not IP addresses; Leaf signs DNS names only, so no
// certificate is good for an address. Leaf signs for any host name; a client refuses other names. An
// Authority is safe for concurrent use.
//
// The caller makes one for each session and gives it to no other. Its certificate ends 14 days after New.
// Certificates of hosts end at the same time. [Authority.Stale] says that less than half of its time is left.
//
// New refuses to make an authority without names, which would be trusted for all hosts. Other errors of New and
// Leaf mean that a key or a certificate could not be made. After an error of New the caller starts no program, and
// after one of Leaf the handshake fails.
//
// Not here: which hosts are intercepted, and what is done with their requests (package egress).
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"
)

const (
	lasts     = 14 * 24 * time.Hour // what it signs too
	maxLeaves = 1024
)

// Authority signs for the hosts of one session.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu     sync.Mutex
	leaves map[string]*tls.Certificate // guarded by mu; by name
}

// New makes an authority for some names, with a key of its own.
func New(names ...string) (*Authority, error) {
	if len(names) == 0 || slices.Contains(names, "") {
		return nil, fmt.Errorf("make an authority for the names %q: it would be trusted for every host", names)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of an authority: %w", err)
	}
	of := &x509.Certificate{
		Subject:      pkix.Name{CommonName: "sandboxd session", Organization: []string{"sandboxd"}},
		SerialNumber: serial(), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		PermittedDNSDomains: names, PermittedDNSDomainsCritical: true,
		KeyUsage:  x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts),
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of an authority: %w", err)
	}
	return &Authority{key: key, cert: cert, leaves: map[string]*tls.Certificate{}}, nil
}

// Stale reports whether another authority should be made for calls that begin now: a call may
// run for long, and less than half of its time is left. A nil one is never stale.
func (a *Authority) Stale() bool { return a != nil && time.Until(a.cert.NotAfter) < lasts/2 }

// PEM returns the certificate of the authority.
func (a *Authority) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// Leaf returns the certificate of a host with its key.
func (a *Authority) Leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.leaves[host]; l != nil {
		return l, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", host, err)
	}
	of := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"sandboxd"}}, SerialNumber: serial(), DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: a.cert.NotAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", host, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", host, err)
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	return a.leaves[host], nil
}

func serial() *big.Int {
	n := make([]byte, 16)
	rand.Read(n) // never fails
	n[0] &= 0x7f
	return new(big.Int).SetBytes(n)
}
