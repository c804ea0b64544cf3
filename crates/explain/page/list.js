// A list of rows of one height, of which only those in sight are in the page.

export const ROW = 18;
const BEYOND = 8;

export class List {
    /**
     * `render(index)` gives the HTML in a row, `classes(index)` its classes besides `row`.
     * `onHover(index)` gets -1 when the pointer leaves, `onPick(index)` a row that is clicked.
     */
    constructor(root, { render, classes, onHover, onPick, onScroll }) {
        Object.assign(this, { root, render, classes, onScroll });
        this.count = 0;
        this.first = this.last = 0;
        root.classList.add("list");
        root.tabIndex = 0;
        root.innerHTML = `<div class="sizer"><div class="rows"></div></div>`;
        this.sizer = root.firstChild;
        this.rows = this.sizer.firstChild;
        let asked = false;
        root.addEventListener("scroll", () => {
            if (asked) return;
            asked = true;
            requestAnimationFrame(() => {
                asked = false;
                this.update();
                this.onScroll?.();
            });
        });
        new ResizeObserver(() => this.update()).observe(root);
        this.rows.addEventListener("pointerover", (event) => onHover?.(this.#at(event.target)));
        this.rows.addEventListener("pointerleave", () => onHover?.(-1));
        this.rows.addEventListener("click", (event) => {
            const index = this.#at(event.target);
            if (index >= 0 && !String(getSelection())) onPick?.(index, event);
        });
    }

    #at(element) {
        const row = element.closest?.(".row");
        return row ? Number(row.dataset.i) : -1;
    }

    /** Shows so many rows, of so many columns of text. */
    reset(count, columns) {
        this.count = count;
        this.sizer.style.height = `${count * ROW}px`;
        this.sizer.style.minWidth = `calc(${columns}ch + var(--gutter, 0px))`;
        this.update(true);
    }

    /** Renders the rows in sight if others are in the page, or `anew`. */
    update(anew) {
        const top = this.root.scrollTop;
        const height = this.root.clientHeight;
        const [seen, end] = [Math.floor(top / ROW), Math.min(this.count, Math.ceil((top + height) / ROW))];
        if (!anew && seen >= this.first && end <= this.last) return;
        const first = Math.max(0, seen - BEYOND);
        const last = Math.min(this.count, end + BEYOND);
        this.first = first;
        this.last = last;
        let html = "";
        for (let i = first; i < last; i++) {
            html += `<div class="row ${this.classes(i)}" data-i="${i}">${this.render(i)}</div>`;
        }
        this.rows.style.transform = `translateY(${first * ROW}px)`;
        this.rows.innerHTML = html;
    }

    /** Gives the rows in the page their classes again. */
    paint() {
        let i = this.first;
        for (const row of this.rows.children) row.className = `row ${this.classes(i++)}`;
    }

    /** Is the row in sight? */
    sees(index) {
        const top = index * ROW - this.root.scrollTop;
        return top >= 0 && top + ROW <= this.root.clientHeight;
    }

    /** Brings one of the rows into sight, unless one is. */
    show(indices) {
        if (!indices.length || indices.some((index) => this.sees(index))) return;
        // The one that is nearest to what is in sight now.
        const middle = (this.root.scrollTop + this.root.clientHeight / 2) / ROW;
        const nearest = indices.reduce((a, b) => (Math.abs(b - middle) < Math.abs(a - middle) ? b : a));
        this.root.scrollTop = Math.max(0, nearest * ROW - this.root.clientHeight / 3);
        this.update();
    }
}
