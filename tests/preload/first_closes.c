/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Works for some milliseconds, and closes a library before it ends. */
#include <dlfcn.h>
#include <time.h>

int main(void) {
  struct timespec now;
  void *library = dlopen("libutil.so.1", RTLD_NOW);
  if (!library) library = dlopen("libm.so.6", RTLD_NOW);
  if (!library) return 1;
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while (now.tv_sec == 0 && now.tv_nsec < 12000000);
  return dlclose(library);
}
