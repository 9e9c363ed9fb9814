package bound

import "bytes"

// HeadSize is how much of a file the kernel reads to find its interpreter.
const HeadSize = 256

// Interpreter reads the first line of a script as the kernel does (fs/binfmt_script.c).
// head is the beginning of the file, HeadSize bytes of it or the whole file. path is ""
// if the kernel would not start it as a script.
func Interpreter(head []byte) (path, arg string) {
	buf := make([]byte, HeadSize)
	copy(buf, head)
	if !bytes.HasPrefix(buf, []byte("#!")) {
		return "", ""
	}
	line := buf[2:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	} else {
		// Without an end of the line the path may be cut off; then something must end it.
		// The kernel puts a NUL in the place of the last byte.
		line[len(line)-1] = 0
		rest := bytes.TrimLeft(line, blanks)
		if !bytes.ContainsAny(rest[:max(0, len(rest)-1)], blanks+"\x00") {
			return "", ""
		}
	}
	line = bytes.Trim(line, blanks)
	end := bytes.IndexAny(line, blanks+"\x00")
	if end < 0 {
		return string(line), ""
	}
	path = string(line[:end])
	if line[end] != 0 { // strings of the kernel end at a NUL
		rest, _, _ := bytes.Cut(bytes.TrimLeft(line[end:], blanks), []byte{0})
		arg = string(rest)
	}
	return path, arg
}

const blanks = " \t"
