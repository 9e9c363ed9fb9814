package daemon

import (
	"context"
	"database/sql"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/config"
)

// TestACommandGivesThePasswordOfTheDatabase: commands of store read store.passwordFile as the daemon does. The database
// here speaks the first messages of PostgreSQL: it asks for a password in clear text, and ends the connection.
func TestACommandGivesThePasswordOfTheDatabase(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	passwords := make(chan string, 1)
	ctx, enough := context.WithCancel(t.Context()) // it would be asked again for a minute
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if password, err := askPassword(c); err == nil {
				select {
				case passwords <- password:
				default:
				}
				enough()
			}
			c.Close()
		}
	}()
	s := &Site{Config: &config.Config{Store: config.Store{
		URL: "postgres://sandboxd@" + l.Addr().String() + "/db?sslmode=disable", Password: "from the file", Timeout: time.Second,
	}}}
	p, err := s.openPlace(ctx, s.Config.Store.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.db.Read(ctx, func(*sql.Tx) error { return nil }); err == nil {
		t.Error("a database that ends each connection was read")
	}
	select {
	case got := <-passwords:
		if got != "from the file" {
			t.Errorf("the password is %q", got)
		}
	default:
		t.Error("no password was given")
	}
}

// askPassword reads the start of a connection, asks for the password and returns it.
func askPassword(c net.Conn) (string, error) {
	read := func(head int) ([]byte, error) { // a message after head bytes of its kind, with its length before it
		b := make([]byte, head+4)
		if _, err := io.ReadFull(c, b); err != nil {
			return nil, err
		}
		body := make([]byte, binary.BigEndian.Uint32(b[head:])-4)
		_, err := io.ReadFull(c, body)
		return body, err
	}
	if _, err := read(0); err != nil {
		return "", err
	}
	const cleartext = "R\x00\x00\x00\x08\x00\x00\x00\x03"
	if _, err := io.WriteString(c, cleartext); err != nil {
		return "", err
	}
	body, err := read(1)
	if err != nil {
		return "", err
	}
	return string(body[:len(body)-1]), nil // it ends with a zero
}
