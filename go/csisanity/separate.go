package csisanity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// driverVariable is set in the process of a driver that runs separately, to the directory that it shares with the test.
const driverVariable = "CSI_SANITY_GO_DRIVER"

// Names of the sockets in that directory. They are links, because each process of a driver may have a socket of its own.
const (
	socketLink     = "csi.sock"
	controllerLink = "controller.sock"
)

// separate returns the flag that makes csi-sanity start the driver in a process of its own, and has the configuration name the links.
func separate(test, dir string, config *TestConfig) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for link, address := range addresses(config) {
		if _, err := socketOf(*address); err != nil {
			return nil, err
		}
		*address = filepath.Join(dir, link)
	}
	command := fmt.Sprintf("%s=%s exec %s -test.run=%s -test.timeout=0", driverVariable, quoted(dir), quoted(program), quoted(only(test)))
	return []string{"--driver-command", command}, nil
}

// serveDriver is for the process of the driver, which listens already. It returns only if it fails.
func serveDriver(dir string, config TestConfig) error {
	if err := offer(dir, config).serve(); err != nil {
		return err
	}
	for link, address := range addresses(&config) {
		socket, err := socketOf(*address)
		if err != nil {
			return err
		}
		// In one step, since csi-sanity may look at any time.
		made := filepath.Join(dir, link+".new")
		_ = os.Remove(made)
		if err := os.Symlink(socket, made); err != nil {
			return err
		}
		if err := os.Rename(made, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	// csi-sanity ends the process.
	select {}
}

// addresses returns the addresses that are set, by the names of their links.
func addresses(config *TestConfig) map[string]*string {
	all := map[string]*string{socketLink: &config.Address}
	if config.ControllerAddress != "" {
		all[controllerLink] = &config.ControllerAddress
	}
	return all
}

// socketOf returns the absolute path of the socket at an address.
func socketOf(address string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(address, "unix:"), "//")
	if path == address && (strings.Contains(address, ":") || address == "") {
		return "", errors.New("SeparateProcess needs a driver at a Unix socket, and its address is " + address)
	}
	return filepath.Abs(path)
}
