// SPDX-License-Identifier: MIT OR Apache-2.0

package demangler

import "testing"

var systemNames = map[string]string{
	"_ZN3std2io5Write9write_all17h0123456789abcdefE": "std::io::Write::write_all",
	"_RNvC6_123foo3bar":                  "123foo::bar",
	"_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int> >::push_back(int const&)",
	"_ZN4core3ptr44drop_in_place$LT$$u5b$u8$u3b$$u20$4$u5d$$GT$17h0123456789abcdefE": "core::ptr::drop_in_place<[u8; 4]>",
	"_Zbroken":                   "_Zbroken",
	"_RC_":                       "_RC_",
	"memcpy":                     "memcpy",
	"main._Zed":                  "main._Zed",
	"libc.so.6+0x16db20":         "libc.so.6+0x16db20",
	"[onstack: too many stacks]": "[onstack: too many stacks]",
}

func TestNamesForPeople(t *testing.T) {
	for system, want := range systemNames {
		if name := Name(system); name != want {
			t.Errorf("%s: %q, want %q", system, name, want)
		}
	}
}
