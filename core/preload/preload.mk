# SPDX-License-Identifier: MIT OR Apache-2.0
# build/lib/libonstack-preload.so: the core and the interpreters inside, nothing of them visible. Included by core/Makefile.
PRELOAD_SOURCES := $(filter-out core/preload/compress_%,$(sort $(wildcard core/preload/*.c)))
PRELOAD_OBJECTS := $(PRELOAD_SOURCES:core/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/heap/malloc.o $(BUILD)/obj/preload/compress.o
# The static zlib that goes in (core/preload/compress.h); none: profiles are written as they are. After installing one, make
# clean, or remove compress.o.
ZLIB ?= -l:libz.a

.PHONY: preload preload-objects
preload: $(BUILD)/lib/libonstack-preload.so
preload-objects: $(PRELOAD_OBJECTS) # ci/check-portability.sh: for a linker that cannot link them
lib: preload

# local names bind inside: another copy of the core in the host has its own.
$(BUILD)/lib/libonstack-preload.so: $(PRELOAD_OBJECTS) $(BUILD)/lib/libonstack-interpreters.a $(BUILD)/lib/libonstack.a \
		core/preload/preload.map
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libonstack-preload.so -Wl,-z,nodelete -Wl,-z,now -Wl,-z,defs \
		-Wl,--wrap=sigaction -Wl,--wrap=pthread_create \
		-Wl,--version-script=core/preload/preload.map $(PRELOAD_OBJECTS) $(BUILD)/lib/libonstack-interpreters.a $(BUILD)/lib/libonstack.a -o $@ $(SYSTEM_LIBS)

# compress.o has all of zlib that is used in it. Whether zlib is there, is for this compiler's libc and fits into a shared
# library whose names are hidden, a link tells.
COMPRESS = $(CC) $(CFLAGS) $(BASE_FLAGS)
$(BUILD)/obj/preload/compress.o: core/preload/compress_zlib.c core/preload/compress_none.c core/preload/compress.h \
		core/preload/preload.mk
	@mkdir -p $(@D)
	@echo "  CC    core/preload/compress_*.c"
	$(Q)if [ "$(ZLIB)" != none ] && $(COMPRESS) -c core/preload/compress_zlib.c -o $(@D)/compress_zlib.o 2>$@.log && \
	  $(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,--version-script=core/preload/preload.map $(@D)/compress_zlib.o $(ZLIB) -o $@.try >>$@.log 2>&1 && \
	  $(CC) $(CFLAGS) -nostdlib -r $(@D)/compress_zlib.o $(ZLIB) -o $@ >>$@.log 2>&1; then rm -f $@.try; \
	else \
	  echo "  NOTE  no static zlib for this compiler ($@.log): the preload writes profiles that are not compressed"; \
	  $(COMPRESS) -c core/preload/compress_none.c -o $@; \
	fi

-include $(PRELOAD_OBJECTS:.o=.d)
