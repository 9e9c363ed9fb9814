// Package transcript keeps what was said in sessions: a directory for each session, with a
// file transcript.json.
//
// A file is one JSON object with the keys metadata and messages. It is written in lines, the
// metadata in the first and each message in one of its own, so that a part of a long
// transcript is read without the rest:
//
//	d, err := transcript.Open("/var/lib/sandboxd/sessions")
//	n, err := d.Write(transcript.Metadata{ID: "s1"}, nil, 0, messages)
//	err = n.Placed("s1")
//	f, err := d.Read("s1")
//	page, err := f.Page(f.Messages()-50, 50)
//
// A file never changes: saving writes another one and puts it into the place of the first,
// with its content on the disk. So whoever reads has one moment of it, and a process that is
// killed leaves the old file or the new one. Files have mode 0600 and directories 0700,
// whatever the umask is. Only a regular file is read, and no link is followed.
//
// Whoever saves holds the lock of the session ([Dir.Lock]) from reading the old file to
// placing the new one; nobody else is waited for. The package checks no ids and no accounts.
package transcript
