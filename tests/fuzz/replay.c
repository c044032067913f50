/* Runs a fuzz target over every file of the folders given: the corpus as a plain test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 0;
    }
    static uint8_t bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    /* An exact heap copy lets the sanitizers see a read past the end. */
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) {
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        copy[i] = bytes[i];
    }
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    return 1;
}

int main(int argc, char **argv) {
    int count = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        int n = scandir(argv[i], &entries, NULL, alphasort);
        if (n < 0) {
            perror(argv[i]);
            return 1;
        }
        for (int k = 0; k < n; k++) {
            if (entries[k]->d_name[0] != '.') {
                char path[4096];
                (void)snprintf(path, sizeof path, "%s/%s", argv[i], entries[k]->d_name);
                count += replay(path);
            }
            free(entries[k]);
        }
        free(entries);
    }
    printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
