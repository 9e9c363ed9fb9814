package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkCall compares one confined /bin/true with a plain fork and exec and
// with bwrap, interleaved so that a busy host slows all of them alike.
func BenchmarkCall(b *testing.B) {
	cage, err := NewBackend(Options{Runtime: filepath.Join(b.TempDir(), "run"), Child: os.Getenv("SANDBOXD_CHILD")})
	if err != nil {
		b.Fatal(err)
	}
	defer cage.Close()
	ws := b.TempDir()
	s := DefaultSettings(ws, os.Getenv("HOME"), nil)
	boxes := map[string]Box{}
	for _, profile := range []string{"strict", "light"} {
		if boxes[profile], err = cage.Box(context.Background(), "bench", profile, s); err != nil {
			b.Skip(err)
		}
	}
	confined := func(profile string) func() error {
		return func() error {
			p, err := boxes[profile].Start(context.Background(), Spec{Argv: []string{"/bin/true"}, Dir: ws})
			if err != nil {
				return err
			}
			_, err = p.Wait()
			return err
		}
	}
	kinds := []struct {
		name string
		run  func() error
	}{
		{"plain", func() error {
			cmd := exec.Command("/bin/true")
			cmd.Dir = ws
			return cmd.Run()
		}},
		{"strict", confined("strict")},
		{"light", confined("light")},
	}
	if _, err := exec.LookPath("bwrap"); err == nil {
		kinds = append(kinds, struct {
			name string
			run  func() error
		}{"bwrap", func() error {
			return exec.Command("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "/bin/true").Run()
		}})
	}
	took := map[string][]time.Duration{}
	for range max(b.N, 200) {
		for _, k := range kinds {
			start := time.Now()
			if err := k.run(); err != nil {
				b.Fatalf("%s: %v", k.name, err)
			}
			took[k.name] = append(took[k.name], time.Since(start))
		}
	}
	at := func(name string, q float64) float64 {
		d := took[name]
		slices.Sort(d)
		return float64(d[int(float64(len(d)-1)*q)])
	}
	for _, k := range kinds {
		b.ReportMetric(at(k.name, 0.5)/1e6, k.name+"-ms")
		b.ReportMetric(at(k.name, 0.99)/1e6, k.name+"-p99-ms")
		b.ReportMetric(at(k.name, 0.5)/at("plain", 0.5), k.name+"/plain")
	}
	if len(took["bwrap"]) > 0 {
		b.ReportMetric(at("strict", 0.5)/at("bwrap", 0.5), "strict/bwrap")
		b.ReportMetric(at("light", 0.5)/at("bwrap", 0.5), "light/bwrap")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTwoAtOnce is the throughput of two callers over that of one.
func BenchmarkTwoAtOnce(b *testing.B) {
	cage, err := NewBackend(Options{Runtime: filepath.Join(b.TempDir(), "run"), Child: os.Getenv("SANDBOXD_CHILD")})
	if err != nil {
		b.Fatal(err)
	}
	defer cage.Close()
	ws := b.TempDir()
	box, err := cage.Box(context.Background(), "bench", "strict", Settings{AllowedWritePaths: []string{ws}})
	if err != nil {
		b.Skip(err)
	}
	rate := func(callers int) float64 {
		const calls = 300
		start := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					p, err := box.Start(context.Background(), Spec{Argv: []string{"/bin/true"}, Dir: ws})
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := p.Wait(); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		return float64(callers*calls) / time.Since(start).Seconds()
	}
	rate(1)
	one, two := rate(1), rate(2)
	b.ReportMetric(one, "one-calls/s")
	b.ReportMetric(two, "two-calls/s")
	b.ReportMetric(two/one, "two/one")
	b.ReportMetric(0, "ns/op")
}
