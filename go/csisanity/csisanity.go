// Package csisanity runs csi-sanity, a conformance test for CSI drivers, from `go test`.
//
// A test starts its driver, usually around a fake of its cloud, and calls Test with its address. Each check of csi-sanity becomes a
// subtest, named by the id of the check. The package uses the standard library alone, and needs the program csi-sanity.
package csisanity

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	// binaryVariable names the program, and flagsVariable has further flags for it, separated by spaces.
	binaryVariable = "CSI_SANITY"
	flagsVariable  = "CSI_SANITY_FLAGS"
	// outputBytesMax of what the program printed last are shown if it ends without a report, or for a reason of no check.
	outputBytesMax = 64 << 10
	// reportBytesMax is the largest report that is read.
	reportBytesMax = 1 << 30
	// graceMin is left of the test's time limit at least, for csi-sanity to clean up and for the report.
	graceMin = 20 * time.Second
)

// Test runs the checks against the driver of this configuration and reports each of them as a subtest of t. What `go test -run` and
// -skip leave out is not run.
func Test(t *testing.T, config TestConfig) {
	t.Helper()
	if config.Address == "" {
		t.Fatal("Address is empty: set it to where the driver listens")
	}
	if dir := os.Getenv(driverVariable); dir != "" {
		t.Fatalf("failed to serve the driver in a separate process: %v", serveDriver(dir, config))
	}
	binary, err := find(config.Binary)
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir, whose path has the name of the test and may be too long for a socket.
	dir, err := os.MkdirTemp("", "csi-sanity-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	paths := offer(dir, config)
	var driverCommand []string
	if config.SeparateProcess {
		if driverCommand, err = separate(t.Name(), dir, &config); err != nil {
			t.Fatal(err)
		}
	} else {
		if err := paths.serve(); err != nil {
			t.Fatalf("failed to offer the functions for paths: %v", err)
		}
		defer paths.stop()
	}
	settings := filepath.Join(dir, "csi-sanity.yaml")
	if err := writeSettings(settings, config, paths); err != nil {
		t.Fatalf("failed to write the settings: %v", err)
	}

	extra := append(append([]string{}, config.Args...), strings.Fields(os.Getenv(flagsVariable))...)
	reportFile := filepath.Join(dir, "report.json")
	arguments := []string{"run", "--config", settings, "--report", "json=" + reportFile, "--no-color"}
	add := func(flag string, values ...string) {
		if !has(extra, flag) {
			arguments = append(append(arguments, flag), values...)
		}
	}
	add("--suite", "sanity")
	add("--jobs", "1")
	if driverCommand != nil {
		add(driverCommand[0], driverCommand[1])
	} else {
		// A driver in this process does not come back.
		add("--restart-timeout", "5s")
	}
	for flag, file := range map[string]string{
		"--secrets":             config.SecretsFile,
		"--parameters":          config.TestVolumeParametersFile,
		"--snapshot-parameters": config.TestSnapshotParametersFile,
		"--mutable-parameters":  config.TestVolumeMutableParametersFile,
	} {
		if file != "" {
			add(flag, file)
		}
	}
	if deadline, ok := t.Deadline(); ok {
		left := time.Until(deadline)
		grace := left / 10
		if grace < graceMin {
			grace = graceMin
		}
		if left <= grace {
			t.Fatalf("%v are left of the test's time, too little to begin: pass a longer -timeout to go test", left.Round(time.Second))
		}
		add("--timeout", fmt.Sprintf("%ds", int((left-grace).Seconds())))
	}
	if set, ok := testFlag("failfast"); ok && set == "true" {
		add("--fail-fast")
	}
	if testing.Verbose() {
		add("--verbose")
	}
	some, err := selected(binary, extra, t.Name())
	if err != nil {
		t.Fatalf("failed to list the checks: %v", err)
	}
	if some != nil && len(some) == 0 {
		return
	}
	for _, id := range some {
		arguments = append(arguments, "--filter", id)
	}
	arguments = append(arguments, extra...)

	outputFile := filepath.Join(dir, "output")
	hidden := outputFile
	if testing.Verbose() {
		hidden = ""
	}
	command := exec.Command("sh", append([]string{"-c", supervised, "sh", hidden, binary}, arguments...)...)
	// Not pipes of this process, which may end before csi-sanity does: then a write would end csi-sanity as well.
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("failed to run %s: %v", binary, err)
	}
	report, problem := readReport(reportFile)
	if problem != nil {
		t.Fatalf("csi-sanity ended without a report (%v; %v)%s", command.ProcessState, problem, lastOf(outputFile))
	}
	report.describe(t, command.ProcessState.ExitCode(), lastOf(outputFile))
}

// find returns the path of the program.
func find(binary string) (string, error) {
	named := binary
	if named == "" {
		named = os.Getenv(binaryVariable)
	}
	if named == "" {
		named = "csi-sanity"
	}
	path, err := exec.LookPath(named)
	if err != nil {
		return "", fmt.Errorf("csi-sanity is not here: %v. Install it, for example with `cargo install csi-sanity`, into a directory in PATH, "+
			"or set %s to the path of the program", err, binaryVariable)
	}
	return path, nil
}

// has says whether arguments set a flag.
func has(arguments []string, flag string) bool {
	for _, argument := range arguments {
		if argument == flag || strings.HasPrefix(argument, flag+"=") {
			return true
		}
	}
	return false
}

// value returns what arguments set a flag to.
func value(arguments []string, flag string) string {
	for at, argument := range arguments {
		if strings.HasPrefix(argument, flag+"=") {
			return strings.TrimPrefix(argument, flag+"=")
		}
		if argument == flag && at+1 < len(arguments) {
			return arguments[at+1]
		}
	}
	return ""
}

// testFlag returns a flag of `go test`.
func testFlag(name string) (string, bool) {
	found := flag.Lookup("test." + name)
	if found == nil {
		return "", false
	}
	return found.Value.String(), true
}

// writeSettings writes the configuration of csi-sanity: JSON, which is YAML, too. It may hold secrets.
func writeSettings(path string, config TestConfig, paths *callbacks) error {
	milliseconds := func(limit time.Duration) any {
		if limit <= 0 {
			return nil
		}
		return limit.Milliseconds()
	}
	settings := map[string]any{
		"endpoint":            config.Address,
		"controller-endpoint": config.ControllerAddress,
		"mount-dir":           config.TargetPath,
		"staging-dir":         config.StagingPath,
		"attach-limit":        config.TestNodeVolumeAttachLimit,
		"paths": without(map[string]any{
			"create-mount-path-command":   paths.command(config.CreateTargetPathCmd, createTarget),
			"create-staging-path-command": paths.command(config.CreateStagingPathCmd, createStaging),
			"remove-mount-path-command":   paths.command(config.RemoveTargetPathCmd, removeTarget),
			"remove-staging-path-command": paths.command(config.RemoveStagingPathCmd, removeStaging),
			"check-path-command":          paths.command(config.CheckPathCmd, checkPath),
			"create-timeout-ms":           milliseconds(config.CreatePathCmdTimeout),
			"remove-timeout-ms":           milliseconds(config.RemovePathCmdTimeout),
			"check-timeout-ms":            milliseconds(config.CheckPathCmdTimeout),
		}),
	}
	if config.TestVolumeAccessType != "" {
		settings["access-types"] = strings.Split(config.TestVolumeAccessType, ",")
	}
	if config.TestVolumeSize > 0 {
		settings["volume-size-bytes"] = config.TestVolumeSize
		settings["expand-size-bytes"] = config.TestVolumeSize + 1<<30
	}
	if config.TestVolumeExpandSize > 0 {
		settings["expand-size-bytes"] = config.TestVolumeExpandSize
	}
	for key, parameters := range map[string]map[string]string{
		"parameters":          config.TestVolumeParameters,
		"snapshot-parameters": config.TestSnapshotParameters,
		"mutable-parameters":  config.TestVolumeMutableParameters,
	} {
		if len(parameters) > 0 {
			settings[key] = parameters
		}
	}
	if config.IdempotentCount > 0 {
		settings["effort"] = map[string]any{"repeat": config.IdempotentCount}
	}
	// For ids of any form, csi-sanity makes up its own, another one at each use.
	if _, isDefault := config.IDGen.(*DefaultIDGenerator); !isDefault && config.IDGen != nil {
		settings["unknown-ids"] = map[string]any{
			"volume": config.IDGen.GenerateUniqueValidVolumeID(),
			"node":   config.IDGen.GenerateUniqueValidNodeID(),
		}
	}
	text, err := json.MarshalIndent(without(settings), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// without returns settings without those that say nothing.
func without(settings map[string]any) map[string]any {
	for key, value := range settings {
		if value == nil || value == "" || value == false {
			delete(settings, key)
		}
	}
	return settings
}

// selected returns the ids of the checks that -run and -skip select, or nil if these do not go beyond the test of this name. It may
// select more than they do; t.Run then leaves out what is too much.
func selected(binary string, arguments []string, test string) ([]string, error) {
	level := len(strings.Split(test, "/"))
	run, _ := testFlag("run")
	skip, _ := testFlag("skip")
	runs, skips := below(run, level), below(skip, level)
	if runs == nil && skips == nil {
		return nil, nil
	}
	list := []string{"list", "--format", "json", "--suite", "sanity"}
	if suites := value(arguments, "--suite"); suites != "" {
		list[len(list)-1] = suites
	}
	printed, err := exec.Command(binary, list...).Output()
	if err != nil {
		return nil, err
	}
	var checks []struct{ ID string }
	if err := json.Unmarshal(printed, &checks); err != nil {
		return nil, err
	}
	some := []string{}
	for _, check := range checks {
		labels := []string{check.ID, check.ID + "@block"}
		if runs != nil && !matches(runs, labels) || skips != nil && matches(skips, labels[:1]) && matches(skips, labels[1:]) {
			continue
		}
		some = append(some, check.ID)
	}
	return some, nil
}

// below returns the elements of a pattern of -run that are for subtests of a test at this level; nil if it has none, or if it is
// one of several parts, which only the testing package reads.
func below(pattern string, level int) []*regexp.Regexp {
	elements := strings.Split(pattern, "/")
	if len(elements) <= level || strings.Contains(pattern, "|") {
		return nil
	}
	var expressions []*regexp.Regexp
	for _, element := range elements[level:] {
		expression, err := regexp.Compile(element)
		if err != nil {
			return nil
		}
		expressions = append(expressions, expression)
	}
	return expressions
}

// matches says whether one of the names matches the expressions, element by element.
func matches(expressions []*regexp.Regexp, names []string) bool {
names:
	for _, name := range names {
		elements := strings.Split(name, "/")
		for at, expression := range expressions {
			if at >= len(elements) || !expression.MatchString(elements[at]) {
				continue names
			}
		}
		return true
	}
	return false
}

// supervised is a script that runs csi-sanity and writes what it prints to a file, if one is named. If this process dies of a panic in
// its driver, no subtest can report anything any more; then that file is shown, with the call that the driver died of.
const supervised = `output=$1; shift
if [ -n "$output" ]; then "$@" >"$output" 2>&1; else "$@"; fi
code=$?
kill -0 "$PPID" 2>/dev/null || {
  [ -z "$output" ] || cat "$output" >&2
  echo "The driver has ended the test. With SeparateProcess in the TestConfig, it is started again, and every check is a subtest." >&2
}
exit $code`

// lastOf returns the end of what csi-sanity has printed, from a new line; nothing if it was shown at once, as -v does.
func lastOf(output string) string {
	text, err := os.ReadFile(output)
	if err != nil {
		return ""
	}
	if excess := len(text) - outputBytesMax; excess > 0 {
		text = text[excess:]
	}
	return ":\n" + string(text)
}
