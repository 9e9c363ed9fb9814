// Package transcript keeps what was said in sessions. [Dir] keeps it in files: a transcript.json in
// a directory for each session. [Rows] keeps it in a database that daemons share.
//
// A transcript is one JSON object with the keys metadata and messages. It is written in lines, the
// metadata in the first and each message in one of its own. So a part of a long transcript can be
// read without the rest.
//
//	d, err := transcript.Open(path) // or transcript.OpenRows(ctx, db); Close ends either
//	unlock := d.Lock("s1")
//	n, err := d.Write(transcript.Metadata{ID: "s1"}, nil, 0, messages)
//	err = n.Place(tx, "s1") // in the transaction that changes the session
//	err = n.Placed("s1")    // after its commit
//	unlock()
//	f, err := d.Read("s1")
//	page, err := f.Page(max(0, f.Messages()-50), 50) // the last ones
//	err = f.Close()
//
// Whoever saves holds the lock of the session from reading the old transcript to Placed. Readers do
// not wait for it. After an error, call [New.Drop]. Over rows, Place returns [ErrStale] if another
// daemon has saved since the old transcript was read. When a session is deleted, call Forget in the
// transaction, and Remove after it.
//
// Guaranteed for files: a file is replaced whole, with its content on the disk. A process that is
// killed leaves the old file or the new one. Whoever reads sees one of them. Files have mode 0600,
// directories 0700, whatever the umask is. Only a regular file is read, and no link is followed.
// Over rows a reader gets the error transcript_changed if somebody saves while it reads.
//
// [Check] checks messages; Write does not. The package checks no ids and no accounts.
//
// A session without a transcript is fs.ErrNotExist, a damaged transcript transcript_corrupt, and a
// full disk disk_reserve. After an error of Write or Place the old transcript is still there. Dir and Rows
// are safe for concurrent use; a [File] is for one goroutine.
//
// A new fact of a conversation is a field of [About]. What a message may be is said by Check
// (message.go). What keeps transcripts elsewhere has the methods of Dir, which package sessions lists as
// Transcripts.
package transcript
