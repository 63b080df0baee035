# The sky of this example: tables of sources (degrees, flux), stars.tbl and the spiral of gas cloud.tbl; and headers of 25
# pictures of it, turned a little and overlapping by a third, and of the region that they cover.

function begin(file) {
    printf "|%13s|%13s|%13s|\n|%13s|%13s|%13s|\n", "ra", "dec", "flux", "double", "double", "double" >file
}

function source(file, x, y, flux) {
    printf " %13.6f %13.6f %13.3f\n", 150 + x / cos(2 * pi / 180), 2 + y, flux >file
}

function header(file, pixels, x, y, turned) {
    printf "SIMPLE  = T\nBITPIX  = -64\nNAXIS   = 2\nNAXIS1  = %d\nNAXIS2  = %d\n", pixels, pixels >file
    printf "CTYPE1  = %sRA---TAN%s\nCTYPE2  = %sDEC--TAN%s\n", quote, quote, quote, quote >file
    printf "CRVAL1  = %f\nCRVAL2  = %f\n", 150 + x / cos(2 * pi / 180), 2 + y >file
    printf "CRPIX1  = %.1f\nCRPIX2  = %.1f\n", (pixels + 1) / 2, (pixels + 1) / 2 >file
    printf "CDELT1  = -0.0005\nCDELT2  = 0.0005\nCROTA2  = %d\nEQUINOX = 2000.0\nEND\n", turned >file
    close(file)
}

BEGIN {
    pi = atan2(0, -1); quote = sprintf("%c", 39); srand(7)
    begin(folder "/stars.tbl"); begin(folder "/cloud.tbl")
    for (i = 0; i < 700; i++)
        source(folder "/stars.tbl", (rand() - .5) * .6, (rand() - .5) * .6, 60 / (rand() + .01))
    for (i = 0; i < 500; i++) {
        r = .26 * i / 500; angle = 22 * sqrt(r) + (i % 2) * pi
        x = r * cos(angle) + .006 * (rand() - .5); y = .6 * r * sin(angle) + .006 * (rand() - .5)
        source(folder "/cloud.tbl", x, y, 60 * exp(-r / .08))
    }
    for (i = 0; i < 25; i++)
        header(folder "/headers/" sprintf("%02d", i) ".hdr", 300, (i % 5 - 2) * .1, (int(i / 5) - 2) * .1, i * 7 % 11 - 5)
    header(folder "/region.hdr", 1100, 0, 0, 0)
}
