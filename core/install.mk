# SPDX-License-Identifier: MIT OR Apache-2.0
# `make install` and `make uninstall`; called by the Makefile at the top, which builds the libraries first.
#
#   PREFIX      where the files will be found later     /usr/local
#   DESTDIR     put before every path while installing, for those who make packages; no file names it
#   LIBDIR, INCLUDEDIR, MANDIR, DOCDIR                  below PREFIX
#
# What is optional (the preload, the libunwind adapter) is installed if it has been built.
BUILD ?= build
CC ?= cc
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/onstack
INSTALL ?= install
include core/version.mk

ifneq ($(filter-out /%,$(PREFIX) $(LIBDIR) $(INCLUDEDIR)),)
$(error PREFIX, LIBDIR and INCLUDEDIR must be absolute paths: PREFIX=/usr/local)
endif

PACKAGE = $(BUILD)/package
CMAKEDIR = $(LIBDIR)/cmake/onstack
TEMPLATES = onstack.pc onstack-interpreters.pc onstack-config.cmake onstack-config-version.cmake
PUBLIC_HEADERS = $(wildcard core/include/onstack/*.h)
MAN_PAGES = $(wildcard docs/man/*.[1-8])
OPTIONAL_LIBRARIES = libonstack-preload.so libonstack-libunwind.a libonstack-heap.a libonstack-interpreters.a
# A page for each function: a line that includes the page where the function is described.
man_names = $(shell sed -n '/^\.Sh NAME/,/^\.Sh SYNOPSIS/s/^\.Nm \([a-z_]*\).*/\1/p' $(1))
man_section = $(subst .,,$(suffix $(1)))
man_dir = $(DESTDIR)$(MANDIR)/man$(call man_section,$(1))

# From the CMake package back to where the libraries and headers are, so that the tree can be moved.
UP := $(shell realpath -m --relative-to=$(CMAKEDIR) $(PREFIX))
LIBDIR_BELOW := $(shell realpath -m --relative-to=$(PREFIX) $(LIBDIR))
INCLUDEDIR_BELOW := $(shell realpath -m --relative-to=$(PREFIX) $(INCLUDEDIR))

.PHONY: install uninstall templates
templates:
	@mkdir -p $(PACKAGE)
	@for name in $(TEMPLATES); do \
	  sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' \
	    -e 's|@UP@|$(UP)|g' -e 's|@LIBDIR_BELOW@|$(LIBDIR_BELOW)|g' -e 's|@INCLUDEDIR_BELOW@|$(INCLUDEDIR_BELOW)|g' \
	    -e 's|@VERSION@|$(VERSION)|g' -e 's|@VERSION_MAJOR@|$(VERSION_MAJOR)|g' -e 's|@SYSTEM_LIBS@|$(SYSTEM_LIBS)|g' \
	    -e 's|@SONAME@|$(SONAME)|g' -e 's|@SHARED_FILE@|$(SHARED_FILE)|g' \
	    core/package/$$name.in >$(PACKAGE)/$$name || exit 1; \
	done
	@! grep -n '@[A-Z_]*@' $(TEMPLATES:%=$(PACKAGE)/%) || { echo "install: a template has a word that nothing fills" >&2; exit 1; }

install: templates
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(CMAKEDIR) $(DESTDIR)$(INCLUDEDIR)/onstack $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 755 $(BUILD)/lib/$(SONAME) $(DESTDIR)$(LIBDIR)/$(SHARED_FILE)
	ln -sf $(SHARED_FILE) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/$(LINK_NAME)
	$(INSTALL) -m 644 $(BUILD)/lib/libonstack.a $(DESTDIR)$(LIBDIR)/
	@if [ -e $(BUILD)/lib/libonstack-heap.a ]; then \
	  $(INSTALL) -m 644 $(BUILD)/lib/libonstack-heap.a $(DESTDIR)$(LIBDIR)/; fi
	$(INSTALL) -m 644 $(PUBLIC_HEADERS) $(DESTDIR)$(INCLUDEDIR)/onstack/
	$(INSTALL) -m 644 $(PACKAGE)/onstack.pc $(DESTDIR)$(LIBDIR)/pkgconfig/
	@if [ -e $(BUILD)/lib/libonstack-interpreters.a ]; then \
	  $(INSTALL) -m 644 plugins/interpreters/include/onstack/interpreters.h $(DESTDIR)$(INCLUDEDIR)/onstack/ && \
	  $(INSTALL) -m 644 $(PACKAGE)/onstack-interpreters.pc $(DESTDIR)$(LIBDIR)/pkgconfig/; fi
	$(INSTALL) -m 644 $(PACKAGE)/onstack-config.cmake $(PACKAGE)/onstack-config-version.cmake $(DESTDIR)$(CMAKEDIR)/
	$(INSTALL) -m 644 LICENSE-MIT LICENSE-APACHE $(DESTDIR)$(DOCDIR)/
	@set -e; for library in $(OPTIONAL_LIBRARIES); do \
	  [ -e $(BUILD)/lib/$$library ] || continue; \
	  $(INSTALL) -m 644 $(BUILD)/lib/$$library $(DESTDIR)$(LIBDIR)/; \
	done
	@if [ -e $(BUILD)/lib/libonstack-libunwind.a ]; then \
	  $(INSTALL) -m 644 core/adapters/onstack_libunwind.h $(DESTDIR)$(INCLUDEDIR)/; fi
	@set -e; $(foreach page,$(MAN_PAGES),$(INSTALL) -d $(call man_dir,$(page)); \
	  for name in $(call man_names,$(page)); do \
	    echo ".so man$(call man_section,$(page))/$(notdir $(page))" >$(call man_dir,$(page))/$$name$(suffix $(page)); \
	  done; \
	  $(INSTALL) -m 644 $(page) $(call man_dir,$(page))/;)
	@echo "installed onstack $(VERSION) below $(DESTDIR)$(PREFIX)"

uninstall:
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(SHARED_FILE) $(SONAME) $(LINK_NAME) libonstack.a $(OPTIONAL_LIBRARIES) pkgconfig/onstack.pc pkgconfig/onstack-interpreters.pc)
	rm -f $(DESTDIR)$(CMAKEDIR)/onstack-config.cmake $(DESTDIR)$(CMAKEDIR)/onstack-config-version.cmake
	rm -f $(addprefix $(DESTDIR)$(INCLUDEDIR)/onstack/,$(notdir $(PUBLIC_HEADERS)) interpreters.h) $(DESTDIR)$(INCLUDEDIR)/onstack_libunwind.h
	rm -f $(DESTDIR)$(DOCDIR)/LICENSE-MIT $(DESTDIR)$(DOCDIR)/LICENSE-APACHE
	@rm -f $(foreach page,$(MAN_PAGES),$(call man_dir,$(page))/$(notdir $(page)) \
	  $(foreach name,$(call man_names,$(page)),$(call man_dir,$(page))/$(name)$(suffix $(page))))
	@rmdir $(DESTDIR)$(CMAKEDIR) $(DESTDIR)$(INCLUDEDIR)/onstack $(DESTDIR)$(DOCDIR) 2>/dev/null || true
