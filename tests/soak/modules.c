/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries that are opened, sampled inside, and closed. Each plugin has other frames, at addresses that come again. */
#include "soak.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#define MODULES 4

uint64_t soak_modules, soak_modules_failed, soak_modules_in_place;

/* Counts those that lie where another one lay before. */
static void modules_compare_place(const struct link_map *map, uint32_t number) {
  static __thread ElfW(Addr) place;
  static __thread uint32_t lay_there;
  if (map->l_addr == place && number != lay_there) soak_count(&soak_modules_in_place, 1);
  place = map->l_addr;
  lay_there = number;
}

void soak_run_modules(soak_worker *worker) {
  while (!soak_resting) {
    char path[4200];
    void (*burn)(unsigned long) = NULL;
    const uint32_t number = soak_random(&worker->seed, MODULES);
    snprintf(path, sizeof(path), "%s/plugin-%u.so", soak_place, number);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) *(void **)&burn = dlsym(library, "plugin_burn");
    if (!burn) {
      soak_fail("%s: %s", path, dlerror());
      return;
    }
    modules_compare_place(library, number);
    for (uint32_t i = soak_random(&worker->seed, 20); i > 0; i--) burn(400000);
    dlclose(library);
    soak_count(&soak_modules, 1);
    soak_beat(worker);
  }
}

/* The loader lists a library before it has found all that it wants: these want what nobody has. In bursts, as more of
   them than there are objects between two looks leave nothing that is certainly the same (sampler/modules/modules.c). */
void soak_run_failing(soak_worker *worker) {
  char path[4200];
  while (!soak_resting) {
    for (uint32_t i = 1 + soak_random(&worker->seed, 20); i > 0; i--) {
      snprintf(path, sizeof(path), "%s/%s", soak_place, i % 2 ? "wanting.so" : "wanting-go.so");
      if (dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        soak_fail("%s can be opened", path);
        return;
      }
      soak_count(&soak_modules_failed, 1);
    }
    soak_sleep(0.001 * soak_random(&worker->seed, 30));
    soak_beat(worker);
  }
}
