/* Files in: whole, bounded, unpacked when they are gzip; then by content to a reader. */
#include <string.h>
#include <zlib.h>

#include "base/os_file.h"
#include "doc/doc_int.h"
#include "orrery/orrery.h"

enum {
    GZIP_WINDOW = 15 + 16, /* zlib: largest window, gzip header */
    GZIP_MIN_BYTES = 18,
    DEFLATE_MAX_RATIO = 1032 /* zlib's own bound on what deflate can reach */
};

/* The unpacked size as the trailer claims it, cut to what the packed bytes could hold. */
static size_t claimed_size(const unsigned char *packed, size_t length) {
    const unsigned char *t = packed + length - 4;
    size_t claim = (size_t)t[0] | (size_t)t[1] << 8 | (size_t)t[2] << 16 | (size_t)t[3] << 24;
    size_t most = length * DEFLATE_MAX_RATIO;
    claim = claim < most ? claim : most;
    return claim < ORR_DOC_MAX_BYTES ? claim : ORR_DOC_MAX_BYTES;
}

static orr_status inflate_all(z_stream *z, orr_arena *arena, const char *path, size_t expected,
                              char **out, size_t *length, orr_err *err) {
    size_t capacity = expected + 1, used = 0;
    char *bytes = (char *)orr_arena_alloc(arena, capacity + 1);
    for (;;) {
        if (used == capacity) {
            capacity = capacity > ORR_DOC_MAX_BYTES / 2 ? ORR_DOC_MAX_BYTES + 1 : 2 * capacity;
            char *bigger = (char *)orr_arena_alloc(arena, capacity + 1);
            memcpy(bigger, bytes, used);
            bytes = bigger;
        }
        z->next_out = (Bytef *)bytes + used;
        z->avail_out = (uInt)(capacity - used);
        int result = inflate(z, Z_NO_FLUSH);
        used = capacity - z->avail_out;
        if (used > ORR_DOC_MAX_BYTES) {
            return orr_fail(err, ORR_E_LIMIT, "%s unpacks to more than the %d bytes that are read",
                            path, ORR_DOC_MAX_BYTES);
        }
        if (result == Z_STREAM_END && z->avail_in > 0) {
            result = inflateReset(z); /* gzip files may be concatenated */
        } else if (result == Z_STREAM_END) {
            bytes[used] = '\0';
            *out = bytes;
            *length = used;
            return ORR_OK;
        }
        if (result != Z_OK && !(result == Z_BUF_ERROR && z->avail_out == 0)) {
            return orr_fail(err, ORR_E_SYNTAX, "the gzip data of %s is %s", path,
                            z->avail_in == 0 ? "cut short" : "damaged");
        }
    }
}

static orr_status unpack(orr_arena *arena, const char *path, char *packed, size_t packed_length,
                         char **out, size_t *length, orr_err *err) {
    z_stream z = {.next_in = (Bytef *)packed, .avail_in = (uInt)packed_length};
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK) {
        return orr_fail(err, ORR_E_LIMIT, "%s cannot be unpacked: too little memory", path);
    }
    size_t expected = claimed_size((const unsigned char *)packed, packed_length);
    orr_status status = inflate_all(&z, arena, path, expected, out, length, err);
    (void)inflateEnd(&z);
    return status;
}

orr_status orr_file_read(orr_arena *arena, const char *path, char **out, size_t *length,
                         orr_err *err) {
    char *bytes;
    size_t size;
    ORR_TRY(orr_os_read_file(arena, path, ORR_DOC_MAX_BYTES, &bytes, &size, err));
    if (size >= GZIP_MIN_BYTES && memcmp(bytes, "\x1f\x8b", 2) == 0) {
        return unpack(arena, path, bytes, size, out, length, err);
    }
    *out = bytes;
    *length = size;
    return ORR_OK;
}

static char first_character(const char *text, size_t length) {
    size_t i = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < length && memchr(" \t\r\n", text[i], 4) != NULL) {
        i++;
    }
    return i < length ? text[i] : '\0';
}

static bool is_named_yaml(const char *name) {
    size_t length = name == NULL ? 0 : strlen(name);
    return (length > 5 && strcmp(name + length - 5, ".yaml") == 0) ||
           (length > 4 && strcmp(name + length - 4, ".yml") == 0);
}

orr_status orr_doc_read(orr_arena *arena, const char *name, const char *text, size_t length,
                        orr_tree **out, orr_err *err) {
    char first = first_character(text, length);
    if (first != '{' && first != '[') {
        return orr_yaml_read(arena, name, text, length, out, err);
    }
    if (!is_named_yaml(name)) {
        return orr_json_read(arena, name, text, length, out, err);
    }
    /* A YAML file may begin with a bracket too, and then needs no quotes around its keys. */
    orr_status status = orr_json_read(arena, name, text, length, out, NULL);
    return status == ORR_OK ? status : orr_yaml_read(arena, name, text, length, out, err);
}

orr_status orr_doc_read_file(orr_arena *arena, const char *path, orr_tree **out, orr_err *err) {
    char *text;
    size_t length;
    ORR_TRY(orr_file_read(arena, path, &text, &length, err));
    return orr_doc_read(arena, path, text, length, out, err);
}

orr_status orr_read_file(orr_arena *arena, const char *path, orr_tree **out, orr_err *err) {
    return orr_doc_read_file(arena, path, out, err);
}

orr_status orr_read_text(orr_arena *arena, const char *name, const char *text, size_t length,
                         orr_tree **out, orr_err *err) {
    return orr_doc_read(arena, name, text, length, out, err);
}
