/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int onstack_regular_file_open(const char *path, uint64_t *size) {
  struct stat status;
  if (stat(path, &status) != 0) return -errno;
  if (!S_ISREG(status.st_mode)) return -ENOEXEC;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor < 0) return -errno;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0) {
    close(descriptor); /* replaced between stat and open */
    return -ENOEXEC;
  }
  *size = (uint64_t)status.st_size;
  return descriptor;
}
