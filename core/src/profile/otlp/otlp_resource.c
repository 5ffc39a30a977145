/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/otlp/otlp_fields.h"
#include "profile/otlp/otlp_writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool otlp_is_given(const onstack_otlp_options *options, uint32_t count, const char *key) {
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(options->resource[i].key, key) == 0) return true;
  }
  return false;
}

/* Of two with one key the first stands. */
static int otlp_add_given(onstack_otlp_writer *writer, uint32_t item) {
  const onstack_otlp_options *options = writer->options;
  const onstack_attribute *attribute = &options->resource[item];
  uint32_t number;
  if (!attribute->key || attribute->key[0] == '\0' || !attribute->value) return ONSTACK_E_OPTIONS;
  if (otlp_is_given(options, item, attribute->key)) return 0;
  int error = onstack_otlp_text_value(writer, attribute->value);
  if (error == 0) error = onstack_profile_strings_add_text(&writer->texts, attribute->key, &number);
  if (error != 0) return error;
  onstack_otlp_add_key_value(writer, &writer->resource, otlp_resource_attributes, writer->texts.items[number].text);
  return 0;
}

/* A resource must have a name; OpenTelemetry's libraries make the same one where they were given none. */
static int otlp_add_unknown_service(onstack_otlp_writer *writer) {
  static const char key[] = "service.name";
  const onstack_profile_maps *maps = writer->report->view.maps;
  char name[256] = "unknown_service";
  if (otlp_is_given(writer->options, writer->options->resource_count, key)) return 0;
  for (size_t i = 0; i < maps->count; i++) {
    if (!maps->items[i].main || maps->items[i].retired) continue;
    snprintf(name, sizeof(name), "unknown_service:%s", onstack_profile_mapping_base_name(&maps->items[i]));
    break;
  }
  int error = onstack_otlp_text_value(writer, name);
  if (error == 0) onstack_otlp_add_key_value(writer, &writer->resource, otlp_resource_attributes, key);
  return error;
}

int onstack_otlp_make_resource(onstack_otlp_writer *writer) {
  int error = 0;
  for (uint32_t i = 0; error == 0 && i < writer->options->resource_count; i++) error = otlp_add_given(writer, i);
  return error != 0 ? error : otlp_add_unknown_service(writer);
}
