# SPDX-License-Identifier: MIT OR Apache-2.0
# The version, read from the public header, and the names of the shared library that follow from it and the system.
version_part = $(shell sed -n 's/^.define ONSTACK_VERSION_$(1) //p' core/include/onstack/onstack.h)
VERSION_MAJOR := $(call version_part,MAJOR)
VERSION := $(VERSION_MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)

# linux, macos or freebsd, of the machine that is compiled for.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
SYSTEM := $(strip $(if $(findstring darwin,$(MACHINE))$(findstring macos,$(MACHINE)),macos,\
	$(if $(findstring freebsd,$(MACHINE)),freebsd,linux)))

ifeq ($(SYSTEM),macos)
SONAME = libonstack.$(VERSION_MAJOR).dylib
SHARED_FILE = libonstack.$(VERSION).dylib
LINK_NAME = libonstack.dylib
SYSTEM_LIBS = -lpthread
else
SONAME = libonstack.so.$(VERSION_MAJOR)
SHARED_FILE = libonstack.so.$(VERSION)
LINK_NAME = libonstack.so
SYSTEM_LIBS = $(if $(filter linux,$(SYSTEM)),-lpthread -ldl,-lpthread)
endif
