/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library with the sections of a Go runtime (runtime/symtab.go): two functions of 64 bytes with frames of GO_DEPTH bytes,
 * the second of which is runtime.goexit. With GO_FAILS nobody has a symbol that it needs, so that opening it fails when the
 * loader has listed and relocated it.
 */
#ifndef GO_DEPTH
#define GO_DEPTH 8
#endif
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

__asm__(".pushsection .text\n"
        ".balign 64\n"
        ".globl go_text\n"
        "go_text: .skip 128\n"
        "go_etext: .byte 0\n"
        ".popsection\n"
        ".pushsection .gopclntab, \"a\"\n"
        ".balign 64\n"
        "go_table: .4byte 0xfffffff1\n"
        ".byte 0, 0, 1, 8\n"
        ".quad 2, 0, 0, go_names - go_table, 0, 0, go_pctab - go_table, go_functions - go_table\n"
        "go_names: .string \"main.run\"\n"
        "go_exit: .string \"runtime.goexit\"\n"
        /* pcsp: {zigzag of the depth less the -1 that it begins with, bytes of code} */
        "go_pctab: .byte 0, 2 * (" TEXT(
            GO_DEPTH) " + 1), 64, 0\n"
                      ".balign 8\n"
                      "go_functions: .4byte 0, go_record - go_functions, 64, go_second - go_functions, 128, 0\n"
                      "go_record: .4byte 0, 0, 0, 0, 1\n"
                      ".skip 24\n"
                      "go_second: .4byte 64, go_exit - go_names, 0, 0, 1\n"
                      ".skip 24\n"
                      "go_more: .skip 4096\n" /* a real one has megabytes: time to be unmapped while they are read */
                      ".popsection\n"
                      ".pushsection .go.module, \"aw\"\n"
                      ".balign 8\n"
                      ".quad go_table\n"
                      ".skip 72\n"
                      ".quad go_pctab, 0, 0, go_functions\n"
                      ".skip 64\n"
                      ".quad go_text, go_etext\n"
                      ".popsection\n");

#ifdef GO_FAILS
extern void go_nobody_has_it(void);
void (*go_wants)(void) = go_nobody_has_it;
#endif
