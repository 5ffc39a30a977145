/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "copies.h"

#include <dlfcn.h>
#include <stdio.h>

static int (*plugin_start)(void);
static unsigned long (*plugin_stop)(void);

const char *copies_plugin_open(const char *path) {
  const char *(*version)(void);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return NULL;
  }
  *(void **)&plugin_start = dlsym(library, "plugin_start");
  *(void **)&plugin_stop = dlsym(library, "plugin_stop");
  *(void **)&version = dlsym(library, "plugin_version");
  return plugin_start && plugin_stop && version ? version() : NULL;
}

int copies_plugin_start(void) { return plugin_start(); }
long copies_plugin_stop(void) { return (long)plugin_stop(); }
