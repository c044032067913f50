/* How sure a fit is of one shape: what it was off by on rows left out, there and nearby, and how
 * far the shape lies outside all that it was fitted to. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "cost/calibration.h"

static double error_at(const orr_fit *fit, const double *place, bool training) {
    static const double MOST_FACTOR = 8; /* either way */
    double own = training ? fit->error_training_frac : fit->error_small_frac;
    double factor = orr_surface_factor(fit->spread, place);
    own *= orr_min_f64(MOST_FACTOR, orr_max_f64(1 / MOST_FACTOR, factor));
    return fit->assumed ? orr_max_f64(own, ORR_THIN_RELERR) : own;
}

double orr_fit_error(const orr_fit *fit, const orr_transfer *transfer, const double *place,
                     bool training) {
    return hypot(error_at(fit, place, training),
                 transfer->octave_frac * orr_cover_octaves(&fit->cover, place));
}

double orr_message_error(const orr_fit *fit, const orr_transfer *transfer, double bytes) {
    double place[ORR_SURFACE_DIMS];
    orr_message_place(bytes, place);
    double octaves = orr_cover_octaves(&fit->cover, place) / ORR_MESSAGE_CELLS;
    return hypot(error_at(fit, place, bytes >= ORR_MIB), transfer->octave_frac * octaves);
}

double orr_cover_octaves(const orr_cover *cover, const double *place) {
    double square = 0;
    for (uint32_t d = 0; d < cover->dims; d++) {
        double off =
            orr_max_f64(0, orr_max_f64(cover->low[d] - place[d], place[d] - cover->high[d]));
        square += off * off;
    }
    return sqrt(square);
}

void orr_cover_write(orr_text *out, const orr_cover *cover) {
    for (uint32_t d = 0; d < cover->dims; d++) {
        orr_text_format(out, "%s%.1f %.1f", d > 0 ? " " : "", cover->low[d], cover->high[d]);
    }
}

orr_status orr_cover_read(const char *text, orr_span at, orr_cover *out, orr_err *err) {
    double number[2 * ORR_SURFACE_DIMS];
    uint32_t count = 0;
    bool good = true;
    for (text += strspn(text, " "); good && *text != '\0'; text += strspn(text, " ")) {
        char word[32];
        size_t length = strcspn(text, " ");
        good = length < sizeof word && count < 2 * ORR_SURFACE_DIMS;
        if (good) {
            memcpy(word, text, length);
            word[length] = '\0';
            good = orr_parse_real(word, &number[count++]);
        }
        text += length;
    }
    good = good && count > 0 && count % 2 == 0;
    *out = (orr_cover){.dims = count / 2};
    for (uint32_t d = 0; good && d < out->dims; d++) {
        out->low[d] = number[2 * d];
        out->high[d] = number[2 * d + 1];
        good = out->low[d] <= out->high[d];
    }
    return good ? ORR_OK
                : orr_fail_at(err, ORR_E_SCHEMA, at,
                              "covers: expected pairs of log2 of the least and the most of each "
                              "size, such as '0 16 5 17'");
}
