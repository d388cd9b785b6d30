"""Data in the layout of Oxford-IIIT Pet: an ellipse on a plain ground, with its trimap and the box of its upper half."""
import os
import random

from PIL import Image, ImageDraw

XML = "<annotation><object><bndbox><xmin>%d</xmin><ymin>%d</ymin><xmax>%d</xmax><ymax>%d</ymax></bndbox></object></annotation>"


def color(draws):
    return tuple(draws.randrange(256) for _ in range(3))


def make(folder, count):
    """Writes that many samples; gives the box around the pet of each by its name: left, upper, right and lower, of which the last two
    lie outside."""
    draws, boxes = random.Random(0), {}
    for part in ("images", "annotations/trimaps", "annotations/xmls"):
        os.makedirs(os.path.join(folder, part))
    for index in range(count):
        name = "pet_%d" % index
        width, height = draws.randint(200, 400), draws.randint(200, 400)
        left, upper = draws.randrange(width // 2), draws.randrange(height // 2)
        ellipse = (left, upper, left + width // 3, upper + height // 3)
        image, trimap = Image.new("RGB", (width, height), color(draws)), Image.new("L", (width, height), 2)
        ImageDraw.Draw(image).ellipse(ellipse, fill=color(draws))
        ImageDraw.Draw(trimap).ellipse(ellipse, fill=1)
        image.save(os.path.join(folder, "images", name + ".jpg"))
        trimap.save(os.path.join(folder, "annotations", "trimaps", name + ".png"))
        with open(os.path.join(folder, "annotations", "xmls", name + ".xml"), "w") as file:
            file.write(XML % (left, upper, ellipse[2], upper + height // 6))
        boxes[name] = [left, upper, ellipse[2] + 1, ellipse[3] + 1]
    with open(os.path.join(folder, "annotations", "trainval.txt"), "w") as file:
        file.writelines("%s 1 1 1\n" % name for name in boxes)
    return boxes
