package csisanity

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// schemaPrefix begins the name of every version of the report's form. The fields below are in all of them.
const schemaPrefix = "csi-sanity/report/v"

// report is the part of csi-sanity's JSON report that is used here.
type report struct {
	Schema     string
	Seed       uint64
	Conclusion struct{ Words string }
	Target     struct{ Name string }
	Summary    struct{ Passed, Failed, Warned, Skipped, Broken int }
	Checks     []check
}

type check struct {
	ID           string
	Title        string
	Outcome      string
	Message      string
	Findings     string
	Transcript   string
	Notes        []string
	CountsAs     string     `json:"counts_as"`
	KnownBecause string     `json:"known_because"`
	SameFault    *sameFault `json:"same_fault"`
}

// sameFault is in a check that shows a fault again that another check reports.
type sameFault struct {
	Check string
}

func readReport(path string) (*report, error) {
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if file.Size() > reportBytesMax {
		return nil, fmt.Errorf("the report has %d bytes, and more than %d are not read", file.Size(), reportBytesMax)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read report
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(read.Schema, schemaPrefix) {
		return nil, fmt.Errorf("its schema is %q, and not %sN", read.Schema, schemaPrefix)
	}
	return &read, nil
}

// describe reports each check as a subtest. The exit code of csi-sanity decides about what belongs to no check, such as volumes that
// stayed behind.
func (r *report) describe(t *testing.T, code int, printed string) {
	t.Helper()
	allPassed := true
	for at := range r.Checks {
		check := &r.Checks[at]
		passed := t.Run(check.ID, func(t *testing.T) { check.describe(t, r.Seed) })
		allPassed = allPassed && passed
	}
	summary := fmt.Sprintf("%s %s; %d passed, %d failed, %d warned, %d skipped, %d inconclusive (seed %d)", r.Target.Name,
		r.Conclusion.Words, r.Summary.Passed, r.Summary.Failed, r.Summary.Warned, r.Summary.Skipped, r.Summary.Broken, r.Seed)
	if code != 0 && allPassed {
		t.Errorf("%s; csi-sanity ended with exit code %d%s", summary, code, printed)
	} else {
		t.Log(summary)
	}
}

// describe reports one check.
func (c *check) describe(t *testing.T, seed uint64) {
	t.Helper()
	for _, note := range c.Notes {
		t.Log(note)
	}
	switch c.Outcome {
	case "passed":
	case "skipped":
		if c.SameFault != nil {
			t.Skipf("shows the fault again that %s reports: %s", c.SameFault.Check, c.Message)
		}
		t.Skip(c.Message)
	case "known_failure":
		t.Skipf("known to fail: %s%s", c.KnownBecause, c.text(t, seed))
	case "failed":
		t.Error(c.text(t, seed))
	case "flaky":
		if c.CountsAs == "failed" {
			t.Errorf("flaky: the failure did not come again each time%s", c.text(t, seed))
		} else {
			t.Logf("flaky: the failure did not come again each time%s", c.text(t, seed))
		}
	case "broken":
		t.Errorf("inconclusive: %s%s", c.Message, c.text(t, seed))
	case "unexpected_pass":
		t.Errorf("passes, although the list of known failures has it: %s", c.KnownBecause)
	default:
		// Warnings, and outcomes of later versions: the exit code says whether they count.
		t.Logf("%s%s", c.Outcome, c.text(t, seed))
	}
}

// text is what csi-sanity prints of the check, and how to run it alone.
func (c *check) text(t *testing.T, seed uint64) string {
	findings := c.Findings
	if findings == "" && c.Message != "" {
		findings = "  " + c.Message + "\n"
	}
	return fmt.Sprintf("\n  %s\n%s%s  repeat       %s='--seed %d' go test -run '%s'", c.Title, findings, c.Transcript, flagsVariable, seed,
		only(t.Name()))
}

// only returns the pattern of -run for one test. The testing package reads the elements between slashes one by one.
func only(test string) string {
	var pattern []string
	for _, element := range strings.Split(test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(element)+"$")
	}
	return strings.Join(pattern, "/")
}
