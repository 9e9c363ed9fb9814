package integration

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
)

// aptRepository has one package, of which apt-get update learns.
func aptRepository() map[string][]byte {
	packages := []byte("Package: left\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nFilename: left.deb\n" +
		"Size: 1\nSHA256: " + fmt.Sprintf("%064x", 1) + "\nDescription: left\n")
	release := fmt.Sprintf("Origin: a\nSuite: s\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n %x %d Packages\n",
		sha256.Sum256(packages), len(packages))
	return map[string][]byte{"/all/Packages": packages, "/all/Release": []byte(release)}
}

// aptVisit updates into a directory of its own, without what the machine has configured.
const aptVisit = `mkdir -p etc/apt.conf.d etc/preferences.d etc/trusted.gpg.d state/lists/partial cache/archives/partial
echo 'deb [trusted=yes] http://HOST/ all/' > etc/sources.list && touch etc/status
printf 'Dir::Etc "%s/etc"; Dir::State "%s/state"; Dir::State::status "%s/etc/status"; Dir::Cache "%s/cache";
APT::Sandbox::User ""; Acquire::Retries 0; Acquire::Languages "none";\n' $PWD $PWD $PWD $PWD > apt.conf
APT_CONFIG=$PWD/apt.conf apt-get update 2>&1
cat state/lists/*Packages`

// newDatabase answers each query of PostgreSQL's protocol with one row.
func newDatabase(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveQueries(conn)
		}
	}()
	return l.Addr().String()
}

func serveQueries(conn net.Conn) {
	defer conn.Close()
	message := func(kind string, body string) string {
		return kind + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body
	}
	ready := message("Z", "I")
	for { // without a kind: requests for encryption, which are refused, then the startup
		body, err := sized(conn)
		if err != nil {
			return
		}
		if len(body) >= 4 && binary.BigEndian.Uint32(body) == 196608 { // version 3.0
			break
		}
		if _, err := io.WriteString(conn, "N"); err != nil {
			return
		}
	}
	_, err := io.WriteString(conn, message("R", "\x00\x00\x00\x00")+message("S", "server_version\x0015.0\x00")+
		message("S", "client_encoding\x00UTF8\x00")+ready)
	const row = "row of the database"
	for kind := make([]byte, 1); err == nil; {
		if _, err = io.ReadFull(conn, kind); err != nil || kind[0] != 'Q' {
			return
		}
		if _, err = sized(conn); err != nil {
			return
		}
		column := "\x00\x01a\x00" + "\x00\x00\x00\x00" + "\x00\x00" + "\x00\x00\x00\x19" + "\xff\xff" +
			"\xff\xff\xff\xff" + "\x00\x00" // one of type text
		_, err = io.WriteString(conn, message("T", column)+message("D", "\x00\x01\x00\x00\x00"+string(rune(len(row)))+row)+
			message("C", "SELECT 1\x00")+ready)
	}
}

// sized is a body that begins with its length.
func sized(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 4 || n > 1<<16 {
		return nil, io.ErrUnexpectedEOF
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(r, body)
	return body, err
}
