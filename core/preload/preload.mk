# SPDX-License-Identifier: MIT OR Apache-2.0
# build/lib/libonstack-preload.so: the core inside, nothing of it visible. Included by core/Makefile.
PRELOAD_SOURCES := $(sort $(wildcard core/preload/*.c))
PRELOAD_OBJECTS := $(PRELOAD_SOURCES:core/%.c=$(BUILD)/obj/%.o)

.PHONY: preload
preload: $(BUILD)/lib/libonstack-preload.so
lib: preload

# local names bind inside: another copy of the core in the host has its own.
$(BUILD)/lib/libonstack-preload.so: $(PRELOAD_OBJECTS) $(BUILD)/lib/libonstack.a core/preload/preload.map
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libonstack-preload.so -Wl,-z,nodelete -Wl,-z,now -Wl,-z,defs \
		-Wl,--wrap=sigaction \
		-Wl,--version-script=core/preload/preload.map $(PRELOAD_OBJECTS) $(BUILD)/lib/libonstack.a -o $@ $(SYSTEM_LIBS)

$(BUILD)/obj/preload/%.o: core/preload/%.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(BASE_FLAGS) -I core -c $< -o $@

-include $(PRELOAD_OBJECTS:.o=.d)
