package web

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"sync"

	"golang.org/x/crypto/argon2"
)

// A password is kept as salt$key, by Argon2id with the parameters that RFC 9106 names second, and less
// memory: one derivation runs at a time, so that those who try passwords take no more than that.
const (
	argonTime   = 3
	argonMemory = 32 << 10 // KiB
	argonKey    = 32
	argonSalt   = 16

	minPassword = 8
	maxPassword = 256
)

var deriving sync.Mutex

func derive(password string, salt []byte) []byte {
	deriving.Lock()
	defer deriving.Unlock()
	return argon2.IDKey([]byte(password), salt, argonTime, argonMemory, 1, argonKey)
}

// hashPassword is what is kept of a password; of none, nothing.
func hashPassword(password string) string {
	if password == "" {
		return ""
	}
	salt := make([]byte, argonSalt)
	rand.Read(salt) // never fails
	return encode(salt) + "$" + encode(derive(password, salt))
}

// isPassword reports whether a password is the one that was kept.
func isPassword(kept, password string) bool {
	text, key, ok := strings.Cut(kept, "$")
	salt, err := base64.RawStdEncoding.DecodeString(text)
	return ok && err == nil && len(password) <= maxPassword && equal(key, encode(derive(password, salt)))
}

func encode(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }
