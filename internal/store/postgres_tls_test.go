package store_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

// TestAStrangerIsNotTheDatabase: whoever answers for another host without a certificate that is known hears nothing,
// neither user nor password. An address may say that it is enough to have TLS, or that none is wanted.
func TestAStrangerIsNotTheDatabase(t *testing.T) {
	for _, tt := range []struct {
		name, host, mode string
		tls              bool // what the stranger speaks
		hears            bool
	}{
		// The kernel leads 0.0.0.0 here, but no address of the loopback is written so.
		{"TLS with its own certificate", "0.0.0.0:PORT", "", true, false},
		{"it is the second host", "127.0.0.1:PORT,0.0.0.0:PORT", "", true, false},
		{"no TLS", "0.0.0.0:PORT", "", false, false},
		{"TLS, and the address wants no certificate", "0.0.0.0:PORT", "?sslmode=require", true, true},
		{"no TLS, and the address wants none", "0.0.0.0:PORT", "?sslmode=disable", false, true},
		{"on this machine", "127.0.0.1:PORT", "", false, true},
		{"on this machine, by its name", "localhost:PORT", "", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port, heard := stranger(t, tt.tls)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for what hangs
			defer cancel()
			opened := make(chan error, 1)
			go func() {
				url := "postgres://u@" + strings.ReplaceAll(tt.host, "PORT", port) + "/d" + tt.mode
				db, err := store.OpenShared(ctx, store.SharedOptions{
					URL: url, Password: "SECRET", Daemon: "d1",
				}, storetest.Notes)
				if err == nil {
					db.Close()
				}
				opened <- err
			}()
			got := false
			for range 2 { // without TLS, where that may be, is a second connection
				select {
				case hears := <-heard:
					got = got || hears
				case err := <-opened:
					t.Fatalf("it waits for the database no more: %v", err)
				}
			}
			if cancel(); got != tt.hears {
				t.Errorf("the stranger heard who wants what: %t, want %t", got, tt.hears)
			}
			if err := <-opened; err == nil {
				t.Error("it is opened")
			}
		})
	}
}

// stranger listens as a server of PostgreSQL, with or without TLS. It says of each who comes whether it told more
// than that it wants TLS.
func stranger(t *testing.T, speaksTLS bool) (port string, heard <-chan bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	web := httptest.NewUnstartedServer(nil) // for its certificate
	web.StartTLS()
	t.Cleanup(web.Close)
	said := make(chan bool)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			hears := hearsMore(conn, speaksTLS, web.TLS.Certificates)
			conn.Close()
			select {
			case said <- hears:
			case <-t.Context().Done():
			}
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, said
}

func hearsMore(conn net.Conn, speaksTLS bool, certs []tls.Certificate) bool {
	head := make([]byte, 8) // its length, and what it is
	if _, err := io.ReadFull(conn, head); err != nil {
		return false
	}
	if wantsTLS := [4]byte(head[4:]) == [4]byte{4, 210, 22, 47}; !wantsTLS {
		return true
	}
	if !speaksTLS {
		if _, err := conn.Write([]byte("N")); err != nil {
			return false
		}
		_, err := io.ReadFull(conn, head)
		return err == nil
	}
	if _, err := conn.Write([]byte("S")); err != nil {
		return false
	}
	_, err := io.ReadFull(tls.Server(conn, &tls.Config{Certificates: certs}), head)
	return err == nil
}
