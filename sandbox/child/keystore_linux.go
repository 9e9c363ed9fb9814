package child

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"time"
	"unicode/utf16"
)

// javaStores are where hosts keep the authorities of every JVM that their packages install.
var javaStores = []string{"/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"}

// keystore is a bundle of certificates as JVMs read it: the format JKS, which each version takes and which
// needs no password to be read.
func keystore(bundle []byte) []byte {
	var certificates [][]byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certificates = append(certificates, block.Bytes)
		}
	}
	var b bytes.Buffer
	number := func(n any) { _ = binary.Write(&b, binary.BigEndian, n) } // it is memory
	text := func(s string) {
		number(uint16(len(s)))
		b.WriteString(s)
	}
	number(uint32(0xfeedfeed))
	number(uint32(2)) // version
	number(uint32(len(certificates)))
	now := time.Now().UnixMilli()
	for i, c := range certificates {
		number(uint32(2)) // a trusted certificate
		text(fmt.Sprintf("authority-%d", i))
		number(now)
		text("X.509")
		number(uint32(len(c)))
		b.Write(c)
	}
	// The digest stops accidents alone; the password is the one that all JVMs have for their own store.
	sum := sha1.New()
	_ = binary.Write(sum, binary.BigEndian, utf16.Encode([]rune("changeit")))
	sum.Write([]byte("Mighty Aphrodite"))
	sum.Write(b.Bytes())
	return sum.Sum(b.Bytes())
}
