// SPDX-License-Identifier: MIT OR Apache-2.0

package trace

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestTruncationsHaveTheHeadersNames(t *testing.T) {
	header, err := os.ReadFile("../../../core/include/onstack/onstack.h")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^#define ONSTACK_TRUNCATED_(\w+) (\d+)\b`).FindAllSubmatch(header, -1) {
		if value, _ := strconv.Atoi(string(match[2])); value != len(names) {
			t.Fatalf("%s is %d, behind %d others", match[1], value, len(names))
		}
		names = append(names, strings.ToLower(string(match[1])))
	}
	if !slices.Equal(names, Truncations) {
		t.Errorf("the header has %v, the checker %v", names, Truncations)
	}
}
