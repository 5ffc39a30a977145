/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/object_headers.h"

#ifdef __linux__
#include "platform/process_memory.h"

void onstack_object_copy_headers(const struct dl_phdr_info *info, onstack_object_copy *copy) {
  const size_t wanted = info->dlpi_phnum < ONSTACK_OBJECT_HEADERS ? info->dlpi_phnum : ONSTACK_OBJECT_HEADERS;
  const size_t size = wanted * sizeof(copy->headers[0]);
  const size_t copied = onstack_process_memory_copy((uint64_t)(uintptr_t)info->dlpi_phdr, copy->headers, size);
  copy->info = *info;
  copy->info.dlpi_phdr = copy->headers;
  copy->info.dlpi_phnum = (ElfW(Half))(copied / sizeof(copy->headers[0]));
}
#endif
