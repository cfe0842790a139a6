package csisanity

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"
)

// TestConfig describes a driver. Its fields have the names and meanings of the TestConfig of csi-test's package sanity, so that a
// test needs only another import. Begin with NewTestConfig.
type TestConfig struct {
	// Address is where the driver listens: a path, unix:///path, dns:///host:port or host:port. If ControllerAddress is empty, it
	// serves the controller as well as the node.
	Address string
	// ControllerAddress is where the controller listens, if not at Address.
	ControllerAddress string

	// TargetPath and StagingPath are directories below which the checks make their paths, each one new. They are made if they are
	// missing. Paths in the layout of csi-test directly at these directories are not used.
	TargetPath  string
	StagingPath string

	// SecretsFile is a YAML file with the secrets of each RPC, under the keys of csi-test.
	SecretsFile string

	// TestVolumeSize is the size in bytes of the volumes that are made, and TestVolumeExpandSize the size that they are expanded
	// to, by default 1 GiB more.
	TestVolumeSize       int64
	TestVolumeExpandSize int64
	// TestVolumeAccessType is mount or block, or both, separated by a comma.
	TestVolumeAccessType string
	// TestNodeVolumeAttachLimit attaches volumes up to the limit that the node names.
	TestNodeVolumeAttachLimit bool

	// Parameters of CreateVolume, of CreateSnapshot, and mutable parameters; or YAML files with them, which replace the maps.
	TestVolumeParameters            map[string]string
	TestVolumeParametersFile        string
	TestSnapshotParameters          map[string]string
	TestSnapshotParametersFile      string
	TestVolumeMutableParameters     map[string]string
	TestVolumeMutableParametersFile string

	// CreateTargetDir and CreateStagingDir make a directory where the driver sees it and return its path, which may be another
	// one. A target path lies in the directory that CreateTargetDir returns. RemoveTargetPath and RemoveStagingPath remove the
	// directory again, and are called for directories above it that were made with it. CheckPath says what is at a path. All of
	// them are optional, and are called one at a time.
	CreateTargetDir   func(path string) (string, error)
	CreateStagingDir  func(path string) (string, error)
	RemoveTargetPath  func(path string) error
	RemoveStagingPath func(path string) error
	CheckPath         func(path string) (PathKind, error)

	// Commands in place of these functions. They get the path as their argument, and take precedence over the functions.
	CreateTargetPathCmd  string
	CreateStagingPathCmd string
	RemoveTargetPathCmd  string
	RemoveStagingPathCmd string
	CheckPathCmd         string

	// Time limits of the functions and commands.
	CreatePathCmdTimeout time.Duration
	RemovePathCmdTimeout time.Duration
	CheckPathCmdTimeout  time.Duration

	// IDGen makes ids of the driver's own form that name nothing.
	IDGen IDGenerator

	// IdempotentCount is how often the suite idempotency repeats each call. That suite runs if Args selects it.
	IdempotentCount int

	// DialOptions and ControllerDialOptions are accepted, so that existing tests compile, and have no effect: csi-sanity, which is
	// another process, dials the driver.
	DialOptions           any
	ControllerDialOptions any

	// SeparateProcess runs the driver in another process, which is started again when the driver panics, so that one panic does not
	// hide all other results. The process is this test binary: it runs the same test up to the call of Test, and serves from then
	// on. The driver has to listen at a Unix socket, and has to replace a socket that is there already.
	SeparateProcess bool

	// Binary is the csi-sanity to run. By default the environment variable CSI_SANITY names it, and else it is searched in PATH.
	Binary string
	// Args are further flags of csi-sanity, such as "--known-failing", "known-failing.txt". They replace those that Test sets by
	// itself: --suite sanity and --jobs 1, because fakes of a cloud are seldom made for calls at the same time.
	Args []string
}

// NewTestConfig returns a configuration with the defaults of csi-test.
func NewTestConfig() TestConfig {
	return TestConfig{
		TargetPath:           filepath.Join(os.TempDir(), "csi-mount"),
		StagingPath:          filepath.Join(os.TempDir(), "csi-staging"),
		TestVolumeSize:       10 << 30,
		TestVolumeAccessType: "mount",
		CreatePathCmdTimeout: 10 * time.Second,
		RemovePathCmdTimeout: 10 * time.Second,
		CheckPathCmdTimeout:  10 * time.Second,
		IDGen:                &DefaultIDGenerator{},
		IdempotentCount:      10,
	}
}

// PathKind says what is at a path.
type PathKind string

// The kinds of things that CheckPath can find.
const (
	PathIsFile     PathKind = "file"
	PathIsDir      PathKind = "directory"
	PathIsNotFound PathKind = "not_found"
	PathIsOther    PathKind = "other"
)

// IDGenerator makes ids for requests about things that do not exist. csi-sanity uses the valid ones; what it sends as malformed
// ids, it makes up itself.
type IDGenerator interface {
	GenerateUniqueValidVolumeID() string
	GenerateInvalidVolumeID() string
	GenerateUniqueValidNodeID() string
	GenerateInvalidNodeID() string
}

// DefaultIDGenerator makes ids for drivers whose ids may be any text.
type DefaultIDGenerator struct{}

// GenerateUniqueValidVolumeID returns an id that no volume has.
func (DefaultIDGenerator) GenerateUniqueValidVolumeID() string { return uniqueID("volume") }

// GenerateInvalidVolumeID returns the same id each time.
func (DefaultIDGenerator) GenerateInvalidVolumeID() string { return "csi-sanity-no-such-volume" }

// GenerateUniqueValidNodeID returns an id that no node has.
func (DefaultIDGenerator) GenerateUniqueValidNodeID() string { return uniqueID("node") }

// GenerateInvalidNodeID returns the same id each time.
func (DefaultIDGenerator) GenerateInvalidNodeID() string { return "csi-sanity-no-such-node" }

func uniqueID(kind string) string {
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		panic("the system has no random bytes: " + err.Error())
	}
	return "csi-sanity-no-such-" + kind + "-" + hex.EncodeToString(random)
}
