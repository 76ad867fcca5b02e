package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const azureList = "{\r\n\t\"cniVersion\": \"0.3.0\",\r\n\t\"name\": \"azure\",\r\n\t\"plugins\": [\r\n\t\t{ \"type\": \"azure-vnet\" }\r\n\t]\r\n}"

// memory is a folder that calls step before each change, and before each read of a list.
type memory struct {
	files map[string]string
	step  func(what, name string) error
}

func (m memory) names() ([]string, error) {
	return slices.Sorted(maps.Keys(m.files)), m.step("names", "")
}

func (m memory) read(name string) ([]byte, fs.FileMode, error) {
	if err := m.step("read", name); err != nil {
		return nil, 0, err
	}
	text, ok := m.files[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return []byte(text), 0o640, nil
}

// create is killed in the middle of a file, too.
func (m memory) create(name string, content []byte, _ fs.FileMode) error {
	if _, ok := m.files[name]; ok {
		return fs.ErrExist
	}
	m.files[name] = string(content[:len(content)/2])
	if err := m.step("create", name); err != nil {
		return err
	}
	m.files[name] = string(content)
	return nil
}

func (m memory) rename(from, to string) error {
	if err := m.step("rename", to); err != nil {
		return err
	}
	if _, ok := m.files[from]; !ok {
		return fs.ErrNotExist
	}
	m.files[to] = m.files[from]
	delete(m.files, from)
	return nil
}

func (m memory) remove(name string) error {
	if err := m.step("remove", name); err != nil {
		return err
	}
	if _, ok := m.files[name]; !ok {
		return fs.ErrNotExist
	}
	delete(m.files, name)
	return nil
}

// machine is a node with a list of CNI's, and what is looked at before every step.
type machine struct {
	bin, conf map[string]string
	runs      int
}

var errKilled = errors.New("killed")

func newMachine() *machine {
	return &machine{bin: map[string]string{"azure-vnet.exe": "x"}, conf: map[string]string{"10-azure.conflist": azureList, "README": "x"}}
}

// run gives a new process the machine, with step before each of its steps.
func (m *machine) run(step func(n int, what, name string) error) *installer {
	m.runs++
	n := 0
	counted := func(what, name string) error { n++; return step(n, what, name) }
	return &installer{
		source: memory{map[string]string{PluginFile: "program"}, counted},
		bin:    memory{m.bin, counted}, conf: memory{m.conf, counted},
		entry: PluginEntry{Mode: "wait", WaitSeconds: 10}, suffix: fmt.Sprint(m.runs),
	}
}

// usable says what is wrong for containerd: it reads a whole list at any moment, and
// finds the programs that the list names.
func (m *machine) usable() error {
	for name, text := range m.conf {
		if ext := filepath.Ext(name); ext == ".conf" || ext == ".json" || ext == ".conflist" && name != "10-azure.conflist" {
			return fmt.Errorf("%s is read by containerd", name)
		}
		if filepath.Ext(name) != ".conflist" {
			continue
		}
		if _, err := removeEntry([]byte(text)); err != nil {
			return err
		}
		if strings.Contains(text, PluginType) && m.bin[PluginFile] != "program" {
			return errors.New("the list names a program that is not there")
		}
	}
	if _, ok := m.conf["10-azure.conflist"]; !ok {
		return errors.New("no list")
	}
	return nil
}

func quiet(int, string, string) error { return nil }

// Killed at every step of install and of uninstall, and run again, it ends right; and
// containerd could read its list at each of them.
func TestInstallKilledAtEveryStep(t *testing.T) {
	for _, installs := range []bool{true, false} {
		for kill, killed := 1, true; killed; kill++ {
			m := newMachine()
			if !installs {
				_, err := m.run(quiet).install()
				require.NoError(t, err)
			}
			do := func(in *installer) error {
				if installs {
					_, err := in.install()
					return err
				}
				return in.uninstall()
			}
			dead := false
			err := do(m.run(func(n int, what, name string) error {
				require.NoError(t, m.usable(), "before step %d, %s %s", n, what, name)
				if dead = dead || n == kill; dead {
					return errKilled
				}
				return nil
			}))
			killed = dead
			require.NoError(t, m.usable(), "killed at step %d: %v", kill, err)
			require.NoError(t, do(m.run(quiet)), "after a kill at step %d", kill)
			require.NoError(t, m.usable())

			want := newMachine()
			if installs {
				_, err := want.run(quiet).install()
				require.NoError(t, err)
			}
			require.Equal(t, want.conf, m.conf, "killed at step %d", kill)
			require.Equal(t, want.bin, m.bin, "killed at step %d", kill)
		}
	}
}

// Another writer at every step: what it wrote is kept, with our entry in it, or comes
// back to the byte. Only between the last look and the rename nobody can keep it.
func TestInstallWithAnotherWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		theirs := azureList
		// Few of the steps have a write before them: one in the middle of an edit has none behind it, too.
		few := rapid.SliceOfNDistinct(rapid.IntRange(1, 14), 0, editTries-1, rapid.ID[int])
		another := func() func(n int, what, name string) error {
			before := few.Draw(t, "writes before steps")
			return func(n int, what, name string) error {
				require.NoError(t, m.usable(), "before step %d, %s %s", n, what, name)
				if slices.Contains(before, n) && (what != "rename" || !strings.HasSuffix(name, ".conflist")) {
					theirs = fmt.Sprintf("{ \"cniVersion\": \"0.4.0\", \"version\": %d,\n \"plugins\" : [ {\"type\":\"azure-vnet\"} ] }\n", n)
					m.conf["10-azure.conflist"] = theirs
				}
				return nil
			}
		}
		_, err := m.run(another()).install()
		require.NoError(t, err)
		_, err = m.run(quiet).install() // what the watch does, for a write behind the rename
		require.NoError(t, err)
		require.Contains(t, m.conf["10-azure.conflist"], PluginType)

		require.NoError(t, m.run(another()).uninstall())
		require.Equal(t, map[string]string{"10-azure.conflist": theirs, "README": "x"}, m.conf)
		require.NotContains(t, m.bin, PluginFile)
	})
}

// A writer that never rests is left alone after a few tries, and nothing stays behind.
func TestInstallGivesWay(t *testing.T) {
	m := newMachine()
	_, err := m.run(func(n int, what, _ string) error {
		if what == "create" {
			m.conf["10-azure.conflist"] = fmt.Sprintf(`{"cniVersion":"0.4.0","n":%d,"plugins":[{"type":"a"}]}`, n)
		}
		return nil
	}).install()
	require.ErrorIs(t, err, errBusyWriter)
	require.Len(t, m.conf, 2)
}

// Windows replaces no program that runs: it is put aside, and goes at the next run.
func TestInstallWhileThePluginRuns(t *testing.T) {
	m := newMachine()
	m.bin[PluginFile] = "older"
	in := m.run(func(_ int, what, name string) error {
		if what == "rename" && name == PluginFile && m.bin[PluginFile] == "older" {
			return fs.ErrPermission
		}
		return nil
	})
	_, err := in.install()
	require.NoError(t, err)
	require.Equal(t, "program", m.bin[PluginFile])
	require.Equal(t, "older", m.bin[in.aside()])
	_, err = m.run(quiet).install()
	require.NoError(t, err)
	require.NotContains(t, m.bin, in.aside())
}

func TestInstallChoosesAsContainerd(t *testing.T) {
	m := newMachine()
	m.conf["05-other.conflist"] = azureList
	name, err := m.run(quiet).chosen()
	require.NoError(t, err)
	require.Equal(t, "05-other.conflist", name)
	m.conf["01-nat.conf"] = `{"type":"nat"}`
	_, err = m.run(quiet).chosen()
	require.ErrorIs(t, err, errSinglePlugin)
	m.conf = map[string]string{}
	_, err = m.run(quiet).chosen()
	require.ErrorIs(t, err, errNoList)
}

// The same on real files: modes stay, links are refused, and no link leads out.
func TestInstallOnDisk(t *testing.T) {
	bin, conf, source := t.TempDir(), t.TempDir(), t.TempDir()
	list := filepath.Join(conf, "10-azure.conflist")
	require.NoError(t, os.WriteFile(filepath.Join(source, PluginFile), []byte("program"), 0o600))
	require.NoError(t, os.WriteFile(list, []byte(azureList), 0o640))
	in := &installer{suffix: "1"}
	for dir, f := range map[string]*folder{source: &in.source, bin: &in.bin, conf: &in.conf} {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, root.Close()) })
		*f = diskFolder{root}
	}
	before, err := os.Stat(list)
	require.NoError(t, err)
	changed, err := in.install()
	require.NoError(t, err)
	require.True(t, changed)
	after, err := os.Stat(list)
	require.NoError(t, err)
	require.Equal(t, before.Mode(), after.Mode())
	require.FileExists(t, filepath.Join(bin, PluginFile))
	changed, err = in.install()
	require.NoError(t, err)
	require.False(t, changed)

	require.NoError(t, in.uninstall())
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Equal(t, azureList, string(text))
	require.NoFileExists(t, filepath.Join(bin, PluginFile))

	outside := filepath.Join(t.TempDir(), "x.conflist")
	require.NoError(t, os.Rename(list, outside))
	if os.Symlink(outside, list) != nil {
		t.Skip("no right to make links")
	}
	_, err = in.install()
	require.ErrorContains(t, err, "no regular file")
}

// A list in a version that the plugin does not speak stays as it is: with the plugin in it no
// pod would start.
func TestInstallIntoAnotherVersion(t *testing.T) {
	m := newMachine()
	old := `{"cniVersion":"0.2.0","name":"n","plugins":[{"type":"a"}]}`
	m.conf["10-azure.conflist"] = old
	_, err := m.run(quiet).install()
	require.ErrorIs(t, err, errListVersion)
	require.Equal(t, old, m.conf["10-azure.conflist"])
}

// An entry whose name another writer spelled with an escape goes as well.
func TestUninstallAnEscapedName(t *testing.T) {
	m := newMachine()
	before := m.conf["10-azure.conflist"]
	_, err := m.run(quiet).install()
	require.NoError(t, err)
	m.conf["10-azure.conflist"] = strings.ReplaceAll(m.conf["10-azure.conflist"], `"winnpm-cni"`, `"winnpm\u002dcni"`)
	m.conf["broken.conflist"] = "{"
	require.NoError(t, m.run(quiet).uninstall())
	require.Equal(t, before, m.conf["10-azure.conflist"])
	require.Empty(t, m.bin[PluginFile])
	require.Equal(t, "{", m.conf["broken.conflist"], "whatever it is")
}

// The program stays while a list names it that was not to be edited.
func TestUninstallOneOfTwo(t *testing.T) {
	m := newMachine()
	_, err := m.run(quiet).install()
	require.NoError(t, err)
	m.conf["20-other.conflist"] = m.conf["10-azure.conflist"]
	in := m.run(quiet)
	in.list = "10-azure.conflist"
	require.ErrorContains(t, in.uninstall(), "20-other.conflist still names winnpm-cni")
	require.NotEmpty(t, m.bin[PluginFile])
	require.NotContains(t, m.conf["10-azure.conflist"], PluginType)
	require.NoError(t, m.run(quiet).uninstall())
	require.Empty(t, m.bin[PluginFile])
}
