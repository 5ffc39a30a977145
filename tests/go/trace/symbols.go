// SPDX-License-Identifier: MIT OR Apache-2.0

package trace

import (
	"debug/elf"
	"debug/gosym"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Function is a symbol with its code.
type Function struct {
	Name      string
	Low, High uint64 // loaded addresses
	Code      []byte // empty where the file has none
}

// Symbols names addresses of a traced process by the files that it had mapped.
type Symbols struct {
	functions []Function // sorted by Low
	plt       []Mapping  // code that only jumps on
}

// Load reads the files of a trace. A stripped Go program is named by its .gopclntab.
func Load(t *Trace) (*Symbols, error) {
	s := &Symbols{}
	seen := map[string]bool{}
	for _, m := range t.Mappings {
		if !strings.HasPrefix(m.Path, "/") || m.Offset != 0 || seen[m.Path] {
			continue
		}
		seen[m.Path] = true
		if err := s.addFile(m); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	slices.SortStableFunc(s.functions, func(a, b Function) int {
		switch {
		case a.Low < b.Low:
			return -1
		case a.Low > b.Low:
			return 1
		}
		return int(b.High-b.Low) - int(a.High-a.Low) // at one address the longest wins
	})
	return s, nil
}

func (s *Symbols) addFile(m Mapping) error {
	file, err := elf.Open(m.Path)
	if err != nil {
		return nil // not an ELF file: a locale archive
	}
	defer file.Close()
	bias := m.Low
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_LOAD {
			bias -= segment.Vaddr &^ 4095
			break
		}
	}
	for _, section := range file.Sections {
		if strings.HasPrefix(section.Name, ".plt") {
			s.plt = append(s.plt, Mapping{Low: bias + section.Addr, High: bias + section.Addr + section.Size})
		}
	}
	symbols, _ := file.Symbols()
	if len(symbols) == 0 {
		symbols = debugSymbols(file)
	}
	dynamic, _ := file.DynamicSymbols()
	for _, symbol := range append(symbols, dynamic...) {
		if elf.ST_TYPE(symbol.Info) == elf.STT_FUNC && symbol.Size > 0 && symbol.Section != elf.SHN_UNDEF {
			s.add(file, symbol.Name, bias, symbol.Value, symbol.Value+symbol.Size)
		}
	}
	if len(symbols) == 0 {
		return s.addGoTable(file, bias)
	}
	return nil
}

// debugSymbols are those of the separate debug file that the build id names, where it is installed.
func debugSymbols(file *elf.File) []elf.Symbol {
	note := file.Section(".note.gnu.build-id")
	if note == nil {
		return nil
	}
	data, err := note.Data()
	if err != nil || len(data) < 20 {
		return nil
	}
	id := fmt.Sprintf("%x", data[16:])
	debug, err := elf.Open("/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug")
	if err != nil {
		return nil
	}
	defer debug.Close()
	symbols, _ := debug.Symbols()
	return symbols
}

func (s *Symbols) addGoTable(file *elf.File, bias uint64) error {
	section, text := goTable(file), file.Section(".text")
	if section == nil || text == nil {
		return nil
	}
	data, err := section.Data()
	if err != nil {
		return err
	}
	start := text.Addr
	if start, err = goText(file, start); err != nil {
		return err
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, start))
	if err != nil {
		return err
	}
	for _, f := range table.Funcs {
		s.add(file, f.Name, bias, f.Entry, f.End)
	}
	return nil
}

func goTable(file *elf.File) *elf.Section {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if section := file.Section(name); section != nil {
			return section
		}
	}
	return nil
}

// goText is where Go's text begins: in an externally linked program some of the C startup code comes first. The first
// function of every Go program is internal/abi's or runtime's; its code is found by what the loader relocates in
// moduledata (word 22).
func goText(file *elf.File, fallback uint64) (uint64, error) {
	section := file.Section(".go.module")
	if section == nil {
		return fallback, nil
	}
	relocations := file.Section(".rela.dyn")
	at := section.Addr + 22*8
	if relocations != nil {
		data, err := relocations.Data()
		if err != nil {
			return 0, err
		}
		for ; len(data) >= 24; data = data[24:] {
			if file.ByteOrder.Uint64(data) == at {
				return file.ByteOrder.Uint64(data[16:]), nil
			}
		}
	}
	data, err := section.Data()
	if err != nil || len(data) < 23*8 {
		return fallback, err
	}
	return file.ByteOrder.Uint64(data[22*8:]), nil
}

func (s *Symbols) add(file *elf.File, name string, bias, low, high uint64) {
	f := Function{Name: name, Low: bias + low, High: bias + high}
	for _, section := range file.Sections {
		if section.Type == elf.SHT_PROGBITS && low >= section.Addr && high <= section.Addr+section.Size {
			f.Code = make([]byte, high-low)
			if _, err := section.ReadAt(f.Code, int64(low-section.Addr)); err != nil {
				f.Code = nil
			}
			break
		}
	}
	s.functions = append(s.functions, f)
}

// Find is the function that holds an address, or nil.
func (s *Symbols) Find(address uint64) *Function {
	i := sort.Search(len(s.functions), func(i int) bool { return s.functions[i].Low > address })
	for i--; i >= 0; i-- {
		f := &s.functions[i]
		if address < f.High {
			for i > 0 && s.functions[i-1].Low == f.Low { // the longest at this address
				i--
			}
			return &s.functions[i]
		}
		if address-f.Low > 1<<20 {
			break
		}
	}
	return nil
}

// Name is a name for people.
func (s *Symbols) Name(address uint64) string {
	if f := s.Find(address); f != nil {
		return f.Name
	}
	if s.inPLT(address) {
		return "[plt]"
	}
	return "[unnamed]"
}

func (s *Symbols) inPLT(address uint64) bool {
	for _, p := range s.plt {
		if address >= p.Low && address < p.High {
			return true
		}
	}
	return false
}
