package tier

import "testing"

func TestTheGateHasOneSeedAndFewRounds(t *testing.T) {
	for _, name := range []string{"LONG", "ROUNDS", "SEED"} {
		t.Setenv(name, "")
	}
	if IsLong() || Rounds(t, 5, 200) != 5 || Seed(t) != seed {
		t.Errorf("long %v, %d rounds, seed %d", IsLong(), Rounds(t, 5, 200), Seed(t))
	}
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a != b {
		t.Errorf("the same test got %d and %d", a, b)
	}
	first := Rand(t).Uint64()
	t.Run("another test", func(t *testing.T) {
		if Rand(t).Uint64() == first {
			t.Error("two tests got the same numbers")
		}
	})
}

func TestALongRunIsTold(t *testing.T) {
	t.Setenv("LONG", "1")
	t.Setenv("ROUNDS", "")
	t.Setenv("SEED", "7")
	if got := Rounds(t, 5, 200); got != 200 {
		t.Errorf("%d rounds", got)
	}
	if got := Seed(t); got != 7 {
		t.Errorf("seed %d", got)
	}
	t.Setenv("ROUNDS", "12")
	if got := Rounds(t, 5, 200); got != 12 {
		t.Errorf("%d rounds", got)
	}
	Long(t, "no test of make long is skipped")
}
