/* How long to wait: what answers say in their headers. */
#include <string.h>

#include "base/text.h"
#include "llm/llm.h"

/* Days since 1970 of a civil date (proleptic Gregorian). */
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
    int64_t y = month <= 2 ? year - 1 : year, m = month <= 2 ? month + 9 : month - 3;
    int64_t era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * m + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool digits(const char **p, int count, int64_t *out) {
    *out = 0;
    for (int i = 0; i < count; i++) {
        if ((*p)[i] < '0' || (*p)[i] > '9') {
            return false;
        }
        *out = *out * 10 + ((*p)[i] - '0');
    }
    *p += count;
    return true;
}

static bool literal(const char **p, const char *text) {
    size_t length = strlen(text);
    if (strncmp(*p, text, length) != 0) {
        return false;
    }
    *p += length;
    return true;
}

static bool clock_of(const char **p, int64_t *s) {
    int64_t h, m, sec;
    if (!digits(p, 2, &h) || !literal(p, ":") || !digits(p, 2, &m) || !literal(p, ":") ||
        !digits(p, 2, &sec)) {
        return false;
    }
    *s = h * 3600 + m * 60 + sec;
    return true;
}

/* "Wed, 21 Oct 2015 07:28:00 GMT" (RFC 9110). */
static bool http_date(const char *text, int64_t *unix_s) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const char *p = strchr(text, ',');
    int64_t day, year, s;
    if (p == NULL || !literal(&p, ", ") || !digits(&p, 2, &day) || !literal(&p, " ") ||
        strlen(p) < 4) {
        return false;
    }
    char name[4] = {p[0], p[1], p[2], '\0'};
    const char *at = strstr(months, name);
    p += 3;
    if (at == NULL || (at - months) % 3 != 0 || !literal(&p, " ") || !digits(&p, 4, &year) ||
        !literal(&p, " ") || !clock_of(&p, &s) || !literal(&p, " GMT")) {
        return false;
    }
    *unix_s = days_of(year, (at - months) / 3 + 1, day) * 86400 + s;
    return true;
}

/* "2026-01-31T12:00:00Z" (RFC 3339; fractions and offsets other than Z are dropped). */
static bool rfc3339(const char *text, int64_t *unix_s) {
    const char *p = text;
    int64_t year, month, day, s;
    if (!digits(&p, 4, &year) || !literal(&p, "-") || !digits(&p, 2, &month) || !literal(&p, "-") ||
        !digits(&p, 2, &day) || !literal(&p, "T") || !clock_of(&p, &s)) {
        return false;
    }
    *unix_s = days_of(year, month, day) * 86400 + s;
    return month >= 1 && month <= 12;
}

double orr_llm_retry_after_s(const orr_tree *headers, int64_t unix_s, double most_s) {
    double wait_s = -1;
    int64_t date;
    const char *ms = orr_tree_text(orr_tree_get(headers, "retry-after-ms"), NULL);
    const char *after = orr_tree_text(orr_tree_get(headers, "retry-after"), NULL);
    if (ms != NULL && orr_parse_real(ms, &wait_s)) {
        wait_s /= 1000;
    } else if (after != NULL && !orr_parse_real(after, &wait_s)) {
        wait_s = http_date(after, &date) ? (double)(date - unix_s) : -1;
    }
    return wait_s > 0 && wait_s <= most_s ? wait_s : -1;
}

/* "6m0s", "1.5s", "20ms", "1h2m". */
static double duration_s(const char *text) {
    double sum = 0;
    while (*text != '\0') {
        char number[32];
        size_t length = strspn(text, "0123456789.");
        double value;
        if (length == 0 || length >= sizeof number) {
            return 0;
        }
        memcpy(number, text, length);
        number[length] = '\0';
        text += length;
        bool ms = strncmp(text, "ms", 2) == 0;
        double unit = ms ? 1e-3 : *text == 'h' ? 3600 : *text == 'm' ? 60 : *text == 's' ? 1 : 0;
        if (unit == 0 || !orr_parse_real(number, &value)) {
            return 0;
        }
        sum += value * unit;
        text += ms ? 2 : 1;
    }
    return sum;
}

double orr_llm_pace_s(const orr_tree *headers, int64_t unix_s) {
    static const char *const names[][2] = {
        {"x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
        {"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
        {"anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"},
        {"anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"},
        {"anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"},
    };
    double most_s = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *left = orr_tree_text(orr_tree_get(headers, names[i][0]), NULL);
        const char *reset = orr_tree_text(orr_tree_get(headers, names[i][1]), NULL);
        double remaining;
        int64_t date;
        if (left == NULL || reset == NULL || !orr_parse_real(left, &remaining) || remaining > 0) {
            continue;
        }
        double s = rfc3339(reset, &date) ? (double)(date - unix_s) : duration_s(reset);
        most_s = s > most_s ? s : most_s;
    }
    return most_s < 120 ? most_s : 120;
}
