package undo

import (
	"context"
	"database/sql"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
)

// placeOf identifies a directory by its file system, its inode, and when it was made, because an inode may be used
// again. It returns "" if the file system does not tell all three.
func placeOf(dir string) string {
	const wanted = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_BTIME
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, wanted, &st)
	if err != nil || st.Mask&wanted != wanted || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return ""
	}
	return fmt.Sprintf("%d:%d %d %d.%09d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

// follow looks for a session whose directory was renamed. It gives the session the calls that the account made there
// under the old name, with the new paths of the files.
func (j *journal) follow(ctx context.Context, account, session, dir string) error {
	place := placeOf(dir)
	if place == "" {
		return nil
	}
	var names []string
	err := j.db.Read(ctx, func(tx *sql.Tx) error {
		names = nil
		return each(tx, func(row scan) error {
			var name string
			err := row(&name)
			names = append(names, name)
			return err
		}, `SELECT DISTINCT dir FROM undo_calls WHERE account = $1 AND place = $2 AND dir <> $3 AND `+followable,
			account, place, dir)
	})
	for _, name := range names {
		if err == nil && placeOf(name) != place { // else the directory has both names, by a mount
			err = j.rename(ctx, account, session, place, name, dir)
		}
	}
	return err
}

// followable selects calls that have ended and whose session was not deleted.
const followable = `settled <> 0 AND session <> ''`

// rename gives the calls of a place to a session that knows the place by another name.
func (j *journal) rename(ctx context.Context, account, session, place, from, to string) error {
	return j.db.Write(ctx, func(tx *sql.Tx) error {
		const which = `account = $1 AND place = $2 AND dir = $3 AND ` + followable
		type path struct {
			call string
			n    int
			name string
		}
		var paths []path
		err := each(tx, func(row scan) error {
			var p path
			var name []byte
			err := row(&p.call, &p.n, &name)
			if p.name = string(name); guard.Within(p.name, from) {
				paths = append(paths, p)
			}
			return err
		}, `SELECT call_id, n, path FROM undo_changes
			WHERE call_id IN (SELECT call_id FROM undo_calls WHERE `+which+`)`, account, place, from)
		if err != nil {
			return err
		}
		put, err := tx.Prepare(`UPDATE undo_changes SET path = $1 WHERE call_id = $2 AND n = $3`)
		for _, p := range paths {
			if err == nil {
				_, err = put.Exec([]byte(to+p.name[len(from):]), p.call, p.n)
			}
		}
		if err == nil {
			_, err = tx.Exec(`UPDATE undo_calls SET dir = $4, session = $5 WHERE `+which,
				account, place, from, to, session)
		}
		return err
	})
}
