/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/host_kind.h"

#include "platform/loader.h"
#include "platform/process_memory.h"
#include "sampler/interpreter/symbols.h"

#include <string.h>

/* The linker's note with the build id of a Go program (cmd/link/internal/ld/elf.go). */
#define HOST_GO_NOTE "Go"
#define HOST_NOTES 4096u /* bytes of notes that are looked through */

static bool host_has_go_note(const uint8_t *notes, size_t size) {
  const ElfW(Nhdr) * note;
  for (size_t at = 0; size - at >= sizeof(*note);) {
    note = (const ElfW(Nhdr) *)(const void *)(notes + at);
    const size_t name = (note->n_namesz + 3u) & ~(size_t)3, description = (note->n_descsz + 3u) & ~(size_t)3;
    at += sizeof(*note);
    if (name > size - at || description > size - at - name) return false;
    if (note->n_namesz == sizeof(HOST_GO_NOTE) + 1 && memcmp(notes + at, HOST_GO_NOTE, sizeof(HOST_GO_NOTE)) == 0)
      return true;
    at += name + description;
  }
  return false;
}

/* The program itself comes first. In a library Go's runtime leaves SIGPROF alone until its profiler is started. */
static int host_look_for_go(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    _Alignas(ElfW(Nhdr)) uint8_t notes[HOST_NOTES];
    if (segment->p_type != PT_NOTE) continue;
    const size_t wanted = segment->p_memsz < sizeof(notes) ? segment->p_memsz : sizeof(notes);
    if (host_has_go_note(notes, onstack_process_memory_copy(info->dlpi_addr + segment->p_vaddr, notes, wanted)))
      *(bool *)data = true;
  }
  return 1;
}

bool onstack_host_needs_session(void) {
  static const onstack_symbols_wanted python = {1, 1, {"_PyRuntime"}}, php = {1, 1, {"execute_ex"}};
  onstack_symbols_found found;
  bool go = false;
  onstack_loader_each(host_look_for_go, &go);
  return go || onstack_symbols_look(&python, NULL, &found) || onstack_symbols_look(&php, NULL, &found);
}
