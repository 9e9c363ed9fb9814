package attack

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// send sends a request and gives the status and the body.
func (w *world) send(socket, method, path, body string, header map[string]string) (int, []byte) {
	w.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://x"+path, r)
	w.must(err)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := w.http(socket).Do(req)
	if err != nil {
		return 599, []byte(err.Error())
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	w.must(err)
	return res.StatusCode, b
}

// raw sends bytes as they are, and gives all that comes back until the daemon closes.
func (w *world) raw(text string) (string, []byte) {
	w.t.Helper()
	c, err := net.Dial("unix", w.client("a"))
	w.must(err)
	defer c.Close()
	w.must(c.SetDeadline(time.Now().Add(5 * time.Minute)))
	if _, err := io.WriteString(c, text); err != nil {
		return refused, nil
	}
	b, _ := io.ReadAll(bufio.NewReader(c))
	statuses := []string{}
	for l := range strings.Lines(string(b)) {
		if strings.HasPrefix(l, "HTTP/1.1 ") {
			statuses = append(statuses, l[9:12])
		}
	}
	return strings.Join(statuses, ", "), b
}

// requests: a request says one thing to every reader.
func requests() []try {
	// Each body means a harmless command to one reader and a forbidden one to another.
	bad := "cat ~/.ssh/id_rsa"
	body := func(name, want, text string) try {
		return try{name, want, func(w *world) (string, []byte) {
			return w.request("a", "POST", "/sessions/"+w.session()+"/calls", w.fill(text))
		}}
	}
	rawly := func(name, want, text string) try {
		return try{name, want, func(w *world) (string, []byte) {
			s := w.session()
			return w.raw(strings.ReplaceAll(text, "{s}", s))
		}}
	}
	call := func(b string) string {
		return fmt.Sprintf("POST /sessions/{s}/calls HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
	}
	harmless := `{"tool":"Bash","args":{"command":"true"}}`
	return []try{
		body("a key twice", refused, `{"tool":"Bash","args":{"command":"true"},"args":{"command":"`+bad+`"}}`),
		body("a key twice inside the arguments", refused, `{"tool":"Bash","args":{"command":"true","command":"`+bad+`"}}`),
		body("a key twice, once with an escape", refused, `{"tool":"Bash","args":{"command":"true","c\u006fmmand":"`+bad+`"}}`),
		body("another case of a key", refused, `{"tool":"Bash","args":{"command":"true"},"Args":{"command":"`+bad+`"}}`),
		body("another case inside the arguments", denied, `{"tool":"Bash","args":{"command":"true","Command":"`+bad+`"}}`),
		body("an unknown key", refused, `{"tool":"Bash","args":{"command":"true"},"mode":"bypassPermissions"}`),
		body("a second document", refused, harmless+`{"tool":"Bash","args":{"command":"`+bad+`"}}`),
		body("a byte order mark", refused, "\ufeff"+harmless),
		body("a NUL behind the document", refused, harmless+"\x00"),
		body("a comment", refused, `{"tool":"Bash",/* */"args":{"command":"true"}}`),
		body("half of a surrogate pair", refused, `{"tool":"Bash","args":{"command":"echo \ud800"}}`),
		body("bytes that are not UTF-8", refused, "{\"tool\":\"Bash\",\"args\":{\"command\":\"echo \xff\"}}"),
		body("a NUL in the command", denied, `{"tool":"Bash","args":{"command":"true\u0000`+bad+`"}}`),
		body("arguments that are a string", refused, `{"tool":"Bash","args":"{\"command\":\"true\"}"}`),
		body("arguments that are a list", refused, `{"tool":"Bash","args":["true"]}`),
		body("a number instead of a name", refused, `{"tool":1,"args":{}}`),
		body("a number that is too large", denied, `{"tool":"Bash","args":{"command":"true","timeout":1e400}}`),
		body("nesting without end", refused, `{"tool":"Bash","args":`+strings.Repeat("[", 100000)),
		body("another case of the tool", "answered", `{"tool":"bash","args":{"command":"true"}}`),
		body("a tool with a blank", "answered", `{"tool":"Bash ","args":{"command":"true"}}`),
		body("a batch with another session in it", refused, `{"calls":[{"tool":"Bash","session_id":"x","args":{"command":"true"}}]}`),
		body("one call and a batch", refused, `{"tool":"Bash","args":{"command":"true"},"calls":[{"tool":"Bash","args":{"command":"`+bad+`"}}]}`),
		rawly("two lengths", "400", "POST /sessions/{s}/calls HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 41\r\n\r\n"+harmless),
		rawly("a length and chunks", "400, 403", "POST /sessions/{s}/calls HTTP/1.1\r\nHost: x\r\nContent-Length: 41\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /approvals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
		rawly("chunks in another case", "501", "POST /sessions/{s}/calls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\nConnection: close\r\n\r\n0\r\n\r\n"),
		rawly("a request behind a request", "200, 403", strings.Replace(call(harmless), "Connection: close\r\n", "", 1)+
			"GET /approvals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
		rawly("a line break in a header", "403", "GET /approvals HTTP/1.1\r\nHost: x\r\nX-Account-Id: a\n b\r\nConnection: close\r\n\r\n"),
		rawly("no host", "400", "GET /status HTTP/1.1\r\n\r\n"),
		rawly("HTTP/0.9", "400", "GET /status\r\n\r\n"),
		rawly("a path with ..", "307", "GET /healthz/../approvals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
		rawly("a path with an escaped slash", "404", "GET /healthz%2f..%2fapprovals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
		rawly("a path with two slashes", "307", "GET //approvals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
		rawly("an absolute address", "403", "GET http://operator/approvals HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n"),
		rawly("another method by a header", "200", "GET /sessions/{s} HTTP/1.1\r\nHost: x\r\nX-HTTP-Method-Override: DELETE\r\nConnection: close\r\n\r\n"),
		rawly("CONNECT", "400", "CONNECT 127.0.0.1:{tcp} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
		rawly("an upgrade", "200", "GET /status HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"),
	}
}
