/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What `split`, `linked` and `shared` are made from, and the inputs kept for the target `beside`, by gcc 12 and
 * binutils. The targets ask for addresses in `outer`, and put a directory's name into the place of the 64 '#'.
 *
 *   cc='gcc -O1 -g -fno-asynchronous-unwind-tables -c beside.c'
 *   ld='gcc -nostdlib -shared -Wl,--build-id=0x5a...5a (20 bytes) -Wl,-z,noseparate-code -Wl,-z,norelro'
 *   $cc -gsplit-dwarf -fdebug-prefix-map=$PWD='####...' -o beside.o; $ld beside.o -o split
 *   llvm-dwp -o package.dwp beside.dwo
 *   $cc -fdebug-prefix-map=$PWD=/src -o plain.o; $ld plain.o -o plain
 *   objcopy --only-keep-debug plain beside.debug
 *   objcopy --strip-all --add-gnu-debuglink=beside.debug plain linked
 *   objcopy --add-section .gnu_debugaltlink=NAME-NUL-AND-BUILD-ID plain shared
 */
static inline __attribute__((always_inline)) int inner(int x) { return x * 3 + 1; }
int outer(int x) {
  for (int i = 0; i < x; i++) x ^= inner(i);
  return x;
}
