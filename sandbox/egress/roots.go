package egress

import (
	"crypto/x509"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/guard"
)

// Roots returns the authorities that the daemon trusts: those of the system, and those of network.caFile, which is
// read each time.
func (*Dialer) Roots(n guard.Network) (*x509.CertPool, error) {
	if n.CAFile == "" {
		return nil, nil // of the system
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the authorities of the system: %w", err)
	}
	text, err := os.ReadFile(n.CAFile)
	if err != nil {
		return nil, fmt.Errorf("network.caFile: %w", err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("network.caFile: %s has no certificate in PEM", n.CAFile)
	}
	return pool, nil
}
