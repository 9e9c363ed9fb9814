package web

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"sync"

	"golang.org/x/crypto/argon2"
)

// A password is stored as salt$key. The key is derived by Argon2id with the second parameter set of RFC 9106 and
// less memory. Only one derivation runs at a time, so that guessing takes no more memory than that.
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

// hashPassword returns what is stored of a password. It returns "" for no password.
func hashPassword(password string) string {
	if password == "" {
		return ""
	}
	salt := make([]byte, argonSalt)
	rand.Read(salt) // rand.Read never fails
	return encode(salt) + "$" + encode(derive(password, salt))
}

// isPassword reports whether a password matches what was stored.
func isPassword(kept, password string) bool {
	text, key, ok := strings.Cut(kept, "$")
	salt, err := base64.RawStdEncoding.DecodeString(text)
	return ok && err == nil && len(password) <= maxPassword && equal(key, encode(derive(password, salt)))
}

func encode(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }
