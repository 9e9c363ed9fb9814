package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Tail gives the last n lines to fn in order, and with follow also those that
// come, until the context ends. Lines are passed as they are in the file; use
// [Verify] to know whether they are what was written.
func Tail(ctx context.Context, path string, n int, follow bool, fn func(line []byte) error) error {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	start, err := lastLines(f, info.Size(), n)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	return copyLines(ctx, io.NewSectionReader(f, start, 1<<62), follow, fn)
}

// lastLines returns the offset of the n-th last line, found from the end.
func lastLines(f io.ReaderAt, size int64, n int) (int64, error) {
	if n <= 0 {
		return size, nil
	}
	buf := make([]byte, 64<<10)
	seen := 0
	for end := size; end > 0; {
		from := max(0, end-int64(len(buf)))
		part := buf[:end-from]
		if _, err := f.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' || from+int64(i) == size-1 {
				continue
			}
			if seen++; seen == n {
				return from + int64(i) + 1, nil
			}
		}
		end = from
	}
	return 0, nil
}

func copyLines(ctx context.Context, r io.Reader, follow bool, fn func([]byte) error) error {
	lines := bufio.NewReaderSize(r, maxLine)
	var half []byte // of a line that is still being written
	for {
		part, err := lines.ReadSlice('\n')
		half = append(half, part...)
		switch {
		case err == nil:
			if err := fn(half); err != nil {
				return err
			}
			half = half[:0]
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case !errors.Is(err, io.EOF):
			return fmt.Errorf("read audit log: %w", err)
		case !follow:
			return nil
		}
		t := time.NewTimer(200 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}
