package csisanity

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	// addressVariable makes TestDriver test the driver at an address; the other tests run it in a process of its own, to see what a
	// user of the package sees. argsVariable has TestConfig.Args.
	addressVariable = "CSISANITY_TEST_ADDRESS"
	argsVariable    = "CSISANITY_TEST_ARGS"
	// defectVariable makes TestDriver start a driver with this defect itself, and end with it, as it would with a driver of its own.
	defectVariable = "CSISANITY_TEST_DEFECT"
	// inProcessVariable keeps such a driver in the process of the test.
	inProcessVariable = "CSISANITY_TEST_IN_PROCESS"
	// mockVariable names the mock driver.
	mockVariable = "CSI_MOCK_DRIVER"
)

// TestDriver is the test of a driver's author. The mock driver mounts nothing, so the functions for paths make real directories.
func TestDriver(t *testing.T) {
	config := NewTestConfig()
	config.Address = os.Getenv(addressVariable)
	if defect := os.Getenv(defectVariable); defect != "" {
		config.SeparateProcess = os.Getenv(inProcessVariable) == ""
		config.Address = mortalMock(t, defect)
	}
	if config.Address == "" {
		t.Skip("run by the other tests")
	}
	dir := t.TempDir()
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeSize = 1 << 30
	config.TestVolumeParameters = map[string]string{"tier": "gold"}
	config.Args = strings.Fields(os.Getenv(argsVariable))
	var made, removed, looked int32
	make := func(path string) (string, error) {
		atomic.AddInt32(&made, 1)
		return path, os.Mkdir(path, 0o700)
	}
	config.CreateTargetDir, config.CreateStagingDir = make, make
	remove := func(path string) error {
		atomic.AddInt32(&removed, 1)
		return os.Remove(path)
	}
	config.RemoveTargetPath, config.RemoveStagingPath = remove, remove
	config.CheckPath = func(path string) (PathKind, error) {
		atomic.AddInt32(&looked, 1)
		found, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return PathIsNotFound, nil
		case err != nil:
			return "", err
		case found.IsDir():
			return PathIsDir, nil
		default:
			return PathIsOther, nil
		}
	}
	Test(t, config)
	t.Logf("functions for paths: made=%d removed=%d looked=%d", made, removed, looked)
}

// program returns the path of a program of this repository.
func program(t *testing.T, name, variable string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	built, err := filepath.Abs(filepath.Join("..", "..", "target", "debug", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built); err != nil {
		t.Skipf("skipped: %s is not built; run `cargo build --workspace`, or set %s", name, variable)
	}
	return built
}

// mock serves the mock driver and returns its address. csi-sanity waits until it listens.
func mock(t *testing.T, arguments ...string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "csi.sock")
	driver := exec.Command(program(t, "csi-mock-driver", mockVariable), append([]string{"--endpoint", socket}, arguments...)...)
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = driver.Process.Kill()
		_ = driver.Wait()
	})
	return "unix://" + socket
}

// mortalMock serves a mock driver. This process ends when the driver does.
func mortalMock(t *testing.T, defect string) string {
	socket := filepath.Join(t.TempDir(), "csi.sock")
	driver := exec.Command(program(t, "csi-mock-driver", mockVariable), "--endpoint", socket, "--defect", defect)
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	var tested int32
	go func() {
		_ = driver.Wait()
		if atomic.LoadInt32(&tested) == 0 {
			panic("the driver panics")
		}
	}()
	t.Cleanup(func() {
		atomic.StoreInt32(&tested, 1)
		_ = driver.Process.Kill()
	})
	return socket
}

// goTest runs TestDriver as `go test` would: what it prints, and whether it passes.
func goTest(t *testing.T, address string, args string, flags ...string) (string, bool) {
	t.Helper()
	// A test that dies of its driver leaves its directories. Not t.TempDir, whose long path has no room for that of a socket.
	temporary, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temporary) })
	test := exec.Command(os.Args[0], flags...)
	test.Env = append(os.Environ(), "TMPDIR="+temporary, addressVariable+"="+address, argsVariable+"="+args,
		binaryVariable+"="+program(t, "csi-sanity", binaryVariable))
	printed, err := test.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(printed), err == nil
}

func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func TestChecksBecomeSubtests(t *testing.T) {
	address := mock(t, "--without", "CREATE_DELETE_SNAPSHOT")
	printed, passed := goTest(t, address, "", "-test.run=^TestDriver$", "-test.v")
	if !passed {
		t.Errorf("a right driver does not pass")
	}
	mustContain(t, printed,
		"--- PASS: TestDriver/controller/create-volume/no-name ",
		"--- PASS: TestDriver/node/node-publish-volume/repeated",
		"--- SKIP: TestDriver/controller/create-snapshot/no-name ",
		"CREATE_DELETE_SNAPSHOT",
		"passed controller/create-volume/no-name (",
		"mock.csi-sanity.example passes",
	)
	counts := regexp.MustCompile(`made=(\d+) removed=(\d+) looked=(\d+)`).FindStringSubmatch(printed)
	if counts == nil || counts[1] == "0" || counts[2] == "0" || counts[3] == "0" {
		t.Errorf("the functions for paths were not called: %v", counts)
	}
}

func TestAFailureShowsTheReport(t *testing.T) {
	address := mock(t, "--defect", "create-volume-repeat-changes-context")
	printed, passed := goTest(t, address, "", "-test.run=^TestDriver$/^controller$/^create-volume$")
	if passed {
		t.Error("a wrong driver passes")
	}
	mustContain(t, printed,
		"--- FAIL: TestDriver/controller/create-volume/repeated-reply ",
		"requirement  MSG-VOLUME-008 (MUST), CreateVolume",
		"expected     ",
		"calls\n",
		"go test -run '^TestDriver$/^controller$/^create-volume$/^repeated-reply$'",
	)
	if strings.Contains(printed, "--- PASS") || strings.Contains(printed, "delete-volume") {
		t.Errorf("more is printed than what failed:\n%s", printed)
	}
}

func TestOnlyWhatRunSelectsIsRun(t *testing.T) {
	printed, passed := goTest(t, mock(t), "", "-test.run=TestDriver/create-volume/no-name$", "-test.v")
	if !passed {
		t.Errorf("it does not pass")
	}
	if strings.Contains(printed, "subtest") || strings.Contains(printed, "/no-name ") {
		t.Errorf("elements of the pattern stand for elements of the id, as in any test:\n%s", printed)
	}
	printed, passed = goTest(t, mock(t), "", "-test.run=TestDriver/controller/create-volume/no-name$", "-test.v")
	if !passed {
		t.Errorf("it does not pass")
	}
	mustContain(t, printed, "--- PASS: TestDriver/controller/create-volume/no-name ", "1 passed, 0 failed")
}

func TestAKnownFailureIsSkippedAndAStaleListFails(t *testing.T) {
	list := filepath.Join(t.TempDir(), "known-failing.txt")
	if err := os.WriteFile(list, []byte("controller/create-volume/repeated-reply  # our issue 12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	only := "-test.run=TestDriver/controller/create-volume/repeated-reply$"
	printed, passed := goTest(t, mock(t, "--defect", "create-volume-repeat-changes-context"), "--known-failing "+list, only, "-test.v")
	if !passed {
		t.Error("a known failure fails")
	}
	mustContain(t, printed, "--- SKIP: TestDriver/controller/create-volume/repeated-reply ", "known to fail: our issue 12")
	printed, passed = goTest(t, mock(t), "--known-failing "+list, only)
	if passed {
		t.Error("a list that is out of date passes")
	}
	mustContain(t, printed, "the list of known failures has it: our issue 12")
}

func TestADriverInAProcessOfItsOwnIsStartedAgain(t *testing.T) {
	t.Setenv(defectVariable, "create-volume-crashes-on-long-names")
	printed, passed := goTest(t, "", "", "-test.run=TestDriver/controller/create-volume", "-test.v")
	if passed {
		t.Error("a driver that panics passes")
	}
	mustContain(t, printed,
		"--- FAIL: TestDriver/controller/create-volume/too-long-name ",
		"the driver crashed on CreateVolume",
		"--- PASS: TestDriver/controller/create-volume/no-name ",
		" 0 inconclusive",
	)
	counts := regexp.MustCompile(`"?made=(\d+)`).FindStringSubmatch(printed)
	if counts == nil || counts[1] != "0" {
		t.Errorf("functions for paths are called in the process of the driver, and not here: %v", counts)
	}
}

func TestADriverThatEndsTheTestIsExplained(t *testing.T) {
	t.Setenv(defectVariable, "create-volume-crashes-on-long-names")
	t.Setenv(inProcessVariable, "1")
	for _, flag := range []string{"-test.v=true", "-test.v=false"} {
		printed, passed := goTest(t, "", "--restart-timeout 1s", "-test.run=TestDriver/controller/create-volume", flag)
		if passed {
			t.Error("a driver that panics passes")
		}
		mustContain(t, printed, "the driver crashed on CreateVolume", "With SeparateProcess in the TestConfig, it is started again")
	}
}

func TestOnlyASocketCanBeReplaced(t *testing.T) {
	_, err := separate("TestX", t.TempDir(), &TestConfig{Address: "dns:///127.0.0.1:9000"})
	if err == nil {
		t.Fatal("it is accepted")
	}
	mustContain(t, err.Error(), "SeparateProcess needs a driver at a Unix socket", "127.0.0.1:9000")
	for _, address := range []string{"unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock"} {
		if socket, err := socketOf(address); socket != "/run/csi.sock" || err != nil {
			t.Errorf("%s: %q %v", address, socket, err)
		}
	}
}

func TestEveryOutcomeHasAMeaning(t *testing.T) {
	dir := t.TempDir()
	outcomes := `
		{"id": "a/passed", "outcome": "passed", "notes": ["tried 3"]},
		{"id": "a/skipped", "outcome": "skipped", "message": "needs snapshots"},
		{"id": "a/again", "outcome": "skipped", "message": "no name", "same_fault": {"check": "a/failed", "outcome": "failed"}},
		{"id": "a/warned", "outcome": "warned", "findings": "  slow\n"},
		{"id": "a/failed", "outcome": "failed", "title": "it works", "findings": "  it does not\n", "transcript": "  calls\n"},
		{"id": "a/flaky-counts", "outcome": "flaky", "counts_as": "failed"},
		{"id": "a/flaky", "outcome": "flaky", "counts_as": "warned"},
		{"id": "a/broken", "outcome": "broken", "message": "no answer"},
		{"id": "a/later", "outcome": "of a later version"}`
	report := `{"schema": "csi-sanity/report/v9", "seed": 7, "checks": [` + outcomes + `]}`
	if err := os.WriteFile(filepath.Join(dir, "report"), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "csi-sanity")
	script := "#!/bin/sh\nfor argument; do case $argument in json=*) cp '" + dir + "/report' \"${argument#json=}\" ;; esac; done\nexit 1\n"
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(binaryVariable, binary)
	printed, passed := goTest(t, "unix:///csi.sock", "", "-test.run=^TestDriver$", "-test.v")
	if passed {
		t.Error("it passes")
	}
	mustContain(t, printed,
		"--- PASS: TestDriver/a/passed ", "tried 3",
		"--- SKIP: TestDriver/a/skipped ", "needs snapshots",
		"--- SKIP: TestDriver/a/again ", "shows the fault again that a/failed reports: no name",
		"--- PASS: TestDriver/a/warned ", "slow",
		"--- FAIL: TestDriver/a/failed ", "it does not", "CSI_SANITY_FLAGS='--seed 7' go test -run '^TestDriver$/^a$/^failed$'",
		"--- FAIL: TestDriver/a/flaky-counts ", "--- PASS: TestDriver/a/flaky ",
		"--- FAIL: TestDriver/a/broken ", "inconclusive: no answer",
		"--- PASS: TestDriver/a/later ",
	)
	outcomes = `{"id": "a/passed", "outcome": "passed"}`
	report = `{"schema": "csi-sanity/report/v9", "checks": [` + outcomes + `]}`
	if err := os.WriteFile(filepath.Join(dir, "report"), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	printed, passed = goTest(t, "unix:///csi.sock", "", "-test.run=^TestDriver$")
	if passed {
		t.Error("an exit code that no check explains passes")
	}
	mustContain(t, printed, "csi-sanity ended with exit code 1")
}

func TestFlagsThatDoNotExistAreShown(t *testing.T) {
	printed, passed := goTest(t, mock(t), "--no-such-flag", "-test.run=^TestDriver$")
	if passed {
		t.Error("it passes")
	}
	mustContain(t, printed, "csi-sanity ended without a report (exit status 2", "--no-such-flag")
}

func TestAMissingProgramIsExplained(t *testing.T) {
	t.Setenv(binaryVariable, "")
	t.Setenv("PATH", t.TempDir())
	_, err := find("")
	if err == nil {
		t.Fatal("it is found")
	}
	mustContain(t, err.Error(), "cargo install csi-sanity", "CSI_SANITY")
	_, err = find("/no/such/csi-sanity")
	mustContain(t, err.Error(), "/no/such/csi-sanity")
}

func TestAnErrorOfAFunctionReachesItsCaller(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	functions := offer(dir, TestConfig{
		CheckPath: func(path string) (PathKind, error) {
			if path == "/bad\npath" {
				return "", errors.New("cannot look there")
			}
			return PathIsFile, nil
		},
	})
	if err := functions.serve(); err != nil {
		t.Fatal(err)
	}
	defer functions.stop()
	if functions.command("", createTarget) != nil || functions.command("./mine", checkPath) != "./mine" {
		t.Error("commands of the user come first, and there are none for functions that are not set")
	}
	script, _ := functions.command("", checkPath).(string)
	for range make([]struct{}, 3) {
		if printed, err := exec.Command(script, "/good").Output(); err != nil || string(printed) != "file" {
			t.Errorf("%q %v", printed, err)
		}
		printed, err := exec.Command(script, "/bad\npath").CombinedOutput()
		if err == nil || string(printed) != "cannot look there\n" {
			t.Errorf("%q %v", printed, err)
		}
	}
}

func TestAPatternStandsForElementsOfTheID(t *testing.T) {
	for _, c := range []struct {
		pattern string
		matches bool
	}{
		{"TestX/controller", true},
		{"TestX/node", false},
		{"TestX/controller/create-volume/no-name$", true},
		{"TestX/controller/create-volume/no-name@block$", true},
		{"TestX//create-volume/^no-name$", true},
		{"TestX/controller/create-volume/no-name/deeper", false},
	} {
		expressions := below(c.pattern, 1)
		id := "controller/create-volume/no-name"
		if expressions == nil || matches(expressions, []string{id, id + "@block"}) != c.matches {
			t.Errorf("%s: %v", c.pattern, !c.matches)
		}
	}
	for _, pattern := range []string{"", "TestX", "TestX/a|TestY/b", "TestX/["} {
		if below(pattern, 1) != nil {
			t.Errorf("%s selects all, or only the testing package can read it", pattern)
		}
	}
}
