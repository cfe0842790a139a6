package csisanity

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Names of the commands through which csi-sanity calls the functions for paths.
const (
	createTarget  = "create-target"
	createStaging = "create-staging"
	removeTarget  = "remove-target"
	removeStaging = "remove-staging"
	checkPath     = "check-path"
)

// stopLine ends the loop that answers; no call is named so.
const stopLine = "stop"

// callbacks lets csi-sanity, which is another process, call functions of this one: it runs a script with the path as argument, the
// script writes a line into a named pipe, and waits at another one until the answer lies in a file. Calls are answered one at a
// time, because functions of a test are seldom made for more.
type callbacks struct {
	dir       string
	functions map[string]func(path string) (string, error)
	requests  *os.File
	ended     chan struct{}
}

// offer returns the functions that are set, with scripts in this directory once they are served.
func offer(dir string, config TestConfig) *callbacks {
	c := &callbacks{dir: dir, functions: map[string]func(string) (string, error){}, ended: make(chan struct{})}
	for name, create := range map[string]func(string) (string, error){
		createTarget: config.CreateTargetDir, createStaging: config.CreateStagingDir,
	} {
		if create := create; create != nil {
			c.functions[name] = func(path string) (string, error) { return createBelow(create, path) }
		}
	}
	for name, remove := range map[string]func(string) error{
		removeTarget: config.RemoveTargetPath, removeStaging: config.RemoveStagingPath,
	} {
		if remove := remove; remove != nil {
			c.functions[name] = func(path string) (string, error) { return "", remove(path) }
		}
	}
	if check := config.CheckPath; check != nil {
		c.functions[checkPath] = func(path string) (string, error) {
			kind, err := check(path)
			return string(kind), err
		}
	}
	return c
}

// serve makes the scripts and begins to answer. A pipe of an earlier process is used again: calls may wait at it.
func (c *callbacks) serve() error {
	if len(c.functions) == 0 {
		return nil
	}
	pipe := filepath.Join(c.dir, "requests")
	if _, err := os.Stat(pipe); err != nil {
		if printed, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
			return fmt.Errorf("mkfifo: %v: %s", err, printed)
		}
	}
	// Open for writing as well, so that it does not end between two calls.
	requests, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	c.requests = requests
	go c.answerAll()
	for name := range c.functions {
		script := fmt.Sprintf(scriptForm, quoted(c.dir), name)
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(script), 0o700); err != nil {
			c.stop()
			return err
		}
	}
	return nil
}

// quoted returns a text as one word of a shell.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// scriptForm is a script that calls a function of the test that has started csi-sanity. The reply pipe is open before the request is
// made, so that no answer is lost.
const scriptForm = `#!/bin/sh
cd %s && rm -f "reply.$$" && mkfifo "reply.$$" && exec 3<>"reply.$$" && printf %%s "$1" >"path.$$" && echo "%s $$" >requests || exit 1
read -r code <&3
if [ "$code" = 0 ]; then cat "text.$$"; else cat "text.$$" >&2; fi
rm -f "reply.$$" "path.$$" "text.$$"
exit "$code"
`

// command returns the command for a function: the user's, or the script that calls it, or none.
func (c *callbacks) command(users, name string) any {
	switch {
	case users != "":
		return users
	case c.functions[name] != nil:
		return filepath.Join(c.dir, name)
	default:
		return nil
	}
}

// answerAll answers until it is stopped.
func (c *callbacks) answerAll() {
	defer close(c.ended)
	calls := bufio.NewScanner(c.requests)
	for calls.Scan() && calls.Text() != stopLine {
		name, caller, _ := strings.Cut(calls.Text(), " ")
		if function := c.functions[name]; function != nil {
			c.answer(function, caller)
		}
	}
}

// answer calls a function for a script. A script that has been ended meanwhile needs no answer, so errors are not reported.
func (c *callbacks) answer(function func(string) (string, error), caller string) {
	file := func(what string) string { return filepath.Join(c.dir, what+"."+caller) }
	path, err := os.ReadFile(file("path"))
	if err != nil {
		return
	}
	text, code := "", "0\n"
	if text, err = function(string(path)); err != nil {
		text, code = err.Error()+"\n", "1\n"
	}
	if os.WriteFile(file("text"), []byte(text), 0o600) != nil {
		return
	}
	// Without O_NONBLOCK, this would wait for ever if the script has been ended.
	reply, err := os.OpenFile(file("reply"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer reply.Close()
	_, _ = reply.WriteString(code)
}

// stop ends the answers.
func (c *callbacks) stop() {
	if c.requests == nil {
		return
	}
	if _, err := c.requests.WriteString(stopLine + "\n"); err == nil {
		<-c.ended
	}
	_ = c.requests.Close()
}

// createBelow makes a directory, and where the function makes only one level, those above it. Tests for csi-test are used to a path
// whose parent is there.
func createBelow(create func(string) (string, error), path string) (string, error) {
	made, err := create(path)
	if errors.Is(err, fs.ErrNotExist) {
		if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
			made, err = create(path)
		}
	}
	return made, err
}
